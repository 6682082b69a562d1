"""Density and coverage."""

from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Le

from ganexp.evaluation.base import Measure, high
from ganexp.evaluation.features import Features
from ganexp.evaluation.statistics import FirstFeatures
from ganexp.ranges import checked


class DensityCoverage(Measure[FirstFeatures]):
    """Density and coverage (Naeem et al. 2020, eq. 6 and 8).

    Density is the mean number of real balls that a generated sample lies in, divided by k, and may exceed 1; coverage is the
    share of real balls that hold a generated sample.

    Args:
        neighbours: k; a ball reaches to its sample's k-th nearest neighbour; 5 in the paper.
        max_samples: The maximum number of samples of each set.
    """

    keys: ClassVar = {"eval/density": high("density"), "eval/coverage": high("coverage")}
    keeps = FirstFeatures
    rank = 5
    default_of = "images"

    @checked
    def __init__(
        self, *, neighbours: Annotated[int, Ge(1), Le(1000)] = 5, max_samples: Annotated[int, Ge(2), Le(10**7)] = 10_000
    ) -> None:
        self.neighbours, self.max_samples = neighbours, max_samples

    def least(self, features: Features, of: str) -> int:
        return self.neighbours + 1 if of == "real" else 2  # only real samples have balls

    def __call__(self, real: FirstFeatures, fake: FirstFeatures) -> dict[str, float]:
        f, g, k = real.rows.double(), fake.rows.double(), self.neighbours
        inside, covered = 0, 0
        for part in f.split(1000):
            radius = torch.cdist(part, f).kthvalue(k + 1, dim=1, keepdim=True).values  # the nearest is the sample itself
            within = torch.cdist(part, g) <= radius
            inside += int(within.sum())
            covered += int(within.any(1).sum())
        return {"eval/density": inside / (k * len(g)), "eval/coverage": covered / len(f)}
