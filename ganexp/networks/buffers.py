"""Buffers that stay what they are while networks are looked at."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def unmoved(*networks: nn.Module) -> Iterator[None]:
    """Put the buffers of networks back at the end, whatever passes inside write into them or put in their places."""
    modules = [module for network in networks for module in network.modules()]
    buffers = [(m, name, buffer, buffer.clone()) for m in modules for name, buffer in m._buffers.items() if buffer is not None]
    try:
        yield
    finally:
        with torch.no_grad():
            for module, name, buffer, was in buffers:
                buffer.copy_(was)
                module._buffers[name] = buffer
