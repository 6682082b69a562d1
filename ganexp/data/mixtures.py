"""Mixtures of narrow Gaussians in the plane, on which missing modes can be counted."""

import math

import torch
from torch import Tensor


class Ring:
    """`modes` Gaussians evenly on a circle (the 8-Gaussian ring of Metz et al. 2017 and Lin et al. 2018)."""

    shape = (2,)

    def __init__(self, *, modes: int = 8, radius: float = 1.0, std: float = 0.01, n: int = 100_000) -> None:
        if not 1 <= modes <= 10_000:
            raise ValueError(f"modes must lie in [1, 10000], not {modes}")
        _check_scale(radius=radius, std=std)
        _check_count(n)
        angles = torch.arange(modes) * (2 * math.pi / modes)
        self.centers = radius * torch.stack([angles.cos(), angles.sin()], 1)
        self.std = std
        self.n = n

    def load(self) -> Tensor:
        """Return `(n, 2)` points, float32, the same at every load."""
        return _draw(self.centers, self.std, self.n)


class Grid:
    """`side`² Gaussians on a square grid around the origin (the 25-Gaussian grid of Lin et al. 2018)."""

    shape = (2,)

    def __init__(self, *, side: int = 5, spacing: float = 2.0, std: float = 0.05, n: int = 100_000) -> None:
        if not 1 <= side <= 100:
            raise ValueError(f"side must lie in [1, 100], not {side}")
        _check_scale(spacing=spacing, std=std)
        _check_count(n)
        ticks = spacing * (torch.arange(side) - (side - 1) / 2)
        self.centers = torch.cartesian_prod(ticks, ticks)
        self.std = std
        self.n = n

    def load(self) -> Tensor:
        """Return `(n, 2)` points, float32, the same at every load."""
        return _draw(self.centers, self.std, self.n)


def _draw(centers: Tensor, std: float, n: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    mode = torch.randint(len(centers), (n,), generator=generator)
    return centers[mode] + std * torch.randn(n, 2, generator=generator)


def _check_scale(**lengths: float) -> None:
    for name, length in lengths.items():
        if not 0 < length < float("inf"):
            raise ValueError(f"{name} must be positive and finite, not {length}")


def _check_count(n: int) -> None:
    if not 1 <= n <= 100_000_000:
        raise ValueError(f"n must lie in [1, 100000000], not {n}")
