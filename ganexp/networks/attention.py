"""SAGAN's self-attention (Zhang et al. 2019, section 3)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

from ganexp.networks.residual import initialized


class SelfAttention(nn.Module):
    """Add to each position of a map γ times a mean of all positions, weighted by how well they match (equations 1 to 3).

    Keys f, queries g and values h are 1×1 convolutions to C/8 channels, v is one back to C, none has a bias; γ starts at 0,
    so that the block starts as the identity.

    This follows the paper; the authors' code has `PooledSelfAttention`.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = max(1, channels // 8)
        self.f, self.g, self.h = (initialized(nn.Conv2d(channels, inner, 1, bias=False)) for _ in range(3))
        self.v = initialized(nn.Conv2d(inner, channels, 1, bias=False))
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, C, H, W)` to the same shape; not by torch's fused attention, which has no second derivatives."""
        keys, queries, values = (layer(x).flatten(2) for layer in (self.f, self.g, self.h))
        weights = (queries.mT @ keys).softmax(-1)  # (B, to, from)
        return x + self.gamma * self.v((values @ weights.mT).unflatten(2, x.shape[2:]))


class PooledSelfAttention(nn.Module):
    """Self-attention as SAGAN and BigGAN code it: values of C/2 channels; keys and values are max-pooled to half the side."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner, half = max(1, channels // 8), max(1, channels // 2)
        self.queries, self.keys = (nn.Conv2d(channels, inner, 1, bias=False) for _ in range(2))
        self.values, self.out = nn.Conv2d(channels, half, 1, bias=False), nn.Conv2d(half, channels, 1, bias=False)
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, C, H, W)` to the same shape; the weights take `(B, HW, HW/4)`."""
        queries = self.queries(x).flatten(2)
        keys, values = (max_pool2d(layer(x), 2).flatten(2) for layer in (self.keys, self.values))
        weights = (queries.mT @ keys).softmax(-1)  # (B, to, from)
        return x + self.gamma * self.out((values @ weights.mT).unflatten(2, x.shape[2:]))
