"""Density and coverage."""

from typing import ClassVar

import torch

from ganexp.evaluation.base import Measure, high, refuse_without_neighbours
from ganexp.evaluation.features import Features
from ganexp.evaluation.statistics import FirstFeatures

NEIGHBOURS = 5
"""k (Naeem et al. 2020, section 4.2)."""


class DensityCoverage(Measure[FirstFeatures]):
    """Density and coverage (Naeem et al. 2020, eq. 6 and 8), with the fifth neighbour, of at most 10,000 samples.

    Density is in how many real balls a generated sample lies, over k, and may exceed 1; coverage is the share of real balls
    that hold a generated sample.
    """

    keys: ClassVar = {"eval/density": high("density"), "eval/coverage": high("coverage")}
    keeps = FirstFeatures
    rank = 5
    default_of = "images"

    def refuse(self, features: Features, n: int, of: str) -> None:
        """Refuse real samples without a fifth neighbour: balls are around them alone."""
        super().refuse(features, n, of)
        if of == "real":
            refuse_without_neighbours(n, NEIGHBOURS, of)

    def __call__(self, real: FirstFeatures, fake: FirstFeatures) -> dict[str, float]:
        """Return both."""
        f, g, k = real.rows.double(), fake.rows.double(), NEIGHBOURS
        inside, covered = 0, 0
        for part in f.split(1000):
            radius = torch.cdist(part, f).kthvalue(k + 1, dim=1, keepdim=True).values  # the nearest is the sample itself
            within = torch.cdist(part, g) <= radius
            inside += int(within.sum())
            covered += int(within.any(1).sum())
        return {"eval/density": inside / (k * len(g)), "eval/coverage": covered / len(f)}
