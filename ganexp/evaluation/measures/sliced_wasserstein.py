"""The sliced Wasserstein distance."""

from typing import ClassVar

import torch

from ganexp.evaluation.base import Measure, low
from ganexp.evaluation.statistics import Projections


class SlicedWasserstein(Measure[Projections]):
    """2-Wasserstein distance of projections, root mean square over 128 fixed directions (Bonneel et al. 2015, eq. 8).

    It is exact for the empirical distributions, whatever their sizes, and in units of the samples. It uses no features.
    """

    keys: ClassVar = {"eval/sliced_wasserstein": low("sliced Wasserstein distance, in units of the samples")}
    keeps = Projections
    rank = 6
    default_of = "points"

    def __call__(self, real: Projections, fake: Projections) -> dict[str, float]:
        x, y = real.in_order, fake.in_order
        n, m = len(x), len(y)
        ends = torch.cat([torch.arange(1, n + 1) * m, torch.arange(1, m + 1) * n]).unique()  # where a quantile changes, × n m
        starts = torch.cat([ends.new_zeros(1), ends[:-1]])
        weight = (ends - starts).double() / (n * m)
        gap = x[starts // m].double() - y[starts // n].double()
        return {"eval/sliced_wasserstein": float((weight @ gap.square()).mean().sqrt())}
