"""The norms that may follow a convolution."""

from typing import Literal

from torch import nn

Norm = Literal["none", "batch", "instance"]
"""What follows a convolution. Instance norm has no weights, as in CycleGAN; the bias before batch norm is left out."""


def norm_layers(norm: str, channels: int) -> list[nn.Module]:
    """Return the layer that normalises maps of so many channels, or none for any other word."""
    if norm == "batch":
        return [nn.BatchNorm2d(channels)]
    return [nn.InstanceNorm2d(channels)] if norm == "instance" else []
