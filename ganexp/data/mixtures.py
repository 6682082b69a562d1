"""Mixtures of narrow Gaussians in the plane, on which missing modes can be counted."""

import copy
import math
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from ganexp.data.dataset import Dataset
from ganexp.data.modes import Gaussians
from ganexp.ranges import checked

Length = Annotated[float, Gt(0)]
HELD_OUT = 10_000
"""The most held-out points that are drawn, on which no run is trained."""
Count = Annotated[int, Ge(1), Le(100_000_000)]


class _Mixture(Dataset):
    """`n` points around centres `(modes, 2)` that are equally likely, with standard deviation `std` in each direction."""

    shape = (2,)
    seed = 0

    def __init__(self, centers: Tensor, std: float, n: int) -> None:
        self.centers = centers
        self.classes = len(centers)
        self.std = std
        self.n = n
        self.modes = Gaussians(centers, std)

    def load(self) -> Tensor:
        """Return `(n, 2)` points, float32, the same at every load."""
        generator, mode = self._modes()
        return self.centers[mode] + self.std * torch.randn(self.n, 2, generator=generator)

    def labels(self) -> Tensor:
        """Return the mode of each point, `(n,)`, int64: its place in `centers`."""
        return self._modes()[1]

    def held_out(self) -> "_Mixture":
        """Return other points around the same centres."""
        others = copy.copy(self)
        others.seed, others.n = self.seed + 1, min(self.n, HELD_OUT)
        return others

    def _modes(self) -> tuple[torch.Generator, Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        return generator, torch.randint(self.classes, (self.n,), generator=generator)


class Ring(_Mixture):
    """`modes` Gaussians evenly on a circle (the 8-Gaussian ring of Metz et al. 2017 and Lin et al. 2018)."""

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
        super().__init__(radius * torch.stack([angles.cos(), angles.sin()], 1), std, n)


class Grid(_Mixture):
    """`side`² Gaussians on a square grid around the origin (the 25-Gaussian grid of Lin et al. 2018)."""

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
        super().__init__(torch.cartesian_prod(ticks, ticks), std, n)
