"""Mixtures of narrow Gaussians in the plane, on which missing modes can be counted."""

import math
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from ganexp.ranges import checked

Length = Annotated[float, Gt(0)]
Count = Annotated[int, Ge(1), Le(100_000_000)]


class Ring:
    """`modes` Gaussians evenly on a circle (the 8-Gaussian ring of Metz et al. 2017 and Lin et al. 2018)."""

    shape = (2,)

    @checked
    def __init__(
        self,
        *,
        modes: Annotated[int, Ge(1), Le(10_000)] = 8,
        radius: Length = 1.0,
        std: Length = 0.01,
        n: Count = 100_000,
    ) -> None:
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

    @checked
    def __init__(
        self,
        *,
        side: Annotated[int, Ge(1), Le(100)] = 5,
        spacing: Length = 2.0,
        std: Length = 0.05,
        n: Count = 100_000,
    ) -> None:
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
