"""The norms that may follow a convolution."""

from typing import Literal

from torch import nn

Norm = Literal["none", "batch", "instance"]
"""The norm after a convolution. Instance norm has no weights, as in CycleGAN; convolutions before batch norm have no bias."""


def norm_layers(norm: str, channels: int) -> list[nn.Module]:
    """Return the norm of maps with this number of channels, as a list, which is empty for any other word."""
    if norm == "batch":
        return [nn.BatchNorm2d(channels)]
    return [nn.InstanceNorm2d(channels)] if norm == "instance" else []
