"""The kernel distance."""

from typing import ClassVar

from ganexp.evaluation.base import Measure, low
from ganexp.evaluation.library import needed
from ganexp.evaluation.statistics import FirstFeatures

SUBSET, SUBSETS = 1000, 10
"""Samples of a subset, and how many subsets are drawn."""


class KID(Measure[FirstFeatures]):
    """Squared maximum mean discrepancy of features under the kernel (fᵀg / F + 1)³ (Bińkowski et al. 2018, section 4).

    The unbiased estimate, which can be negative, averaged over 10 subsets of 1000 samples, drawn with a seed of their own from
    at most 10,000; smaller sets are taken whole.
    """

    keys: ClassVar = {"eval/kid": low("kernel distance, a squared discrepancy under a cubic kernel, not multiplied by 1000")}
    keeps = FirstFeatures
    rank = 2
    default_of = "images"
    library = "torch_fidelity"

    def __call__(self, real: FirstFeatures, fake: FirstFeatures) -> dict[str, float]:
        """Return the distance."""
        f, g = real.rows.double(), fake.rows.double()
        size = min(SUBSET, len(f), len(g))
        subsets = 1 if len(f) == len(g) == size else SUBSETS
        settings = {"kid_subset_size": size, "kid_subsets": subsets, "rng_seed": 0, "verbose": False}
        found = needed("torch_fidelity.metric_kid").kid_features_to_metric(f, g, **settings)
        return {"eval/kid": float(found["kernel_inception_distance_mean"])}
