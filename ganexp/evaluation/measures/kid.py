"""The kernel distance."""

from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from ganexp.evaluation.base import Measure, low
from ganexp.evaluation.features import needed
from ganexp.evaluation.statistics import FirstFeatures
from ganexp.ranges import checked


class KID(Measure[FirstFeatures]):
    """Squared maximum mean discrepancy of features under the kernel (fᵀg / F + 1)³ (Bińkowski et al. 2018, section 4).

    The unbiased estimate, which can be negative, averaged over subsets that are drawn with a seed of their own. Sets that are
    no larger than a subset are taken whole.

    Args:
        subsets: Number of subsets; 100 in the paper.
        subset_size: Samples per subset.
        max_samples: The maximum number of samples of each set.
    """

    keys: ClassVar = {"eval/kid": low("kernel distance, a squared discrepancy under a cubic kernel, not multiplied by 1000")}
    keeps = FirstFeatures
    rank = 2
    default_of = "images"
    library = "torch_fidelity"

    @checked
    def __init__(
        self,
        *,
        subsets: Annotated[int, Ge(1)] = 10,
        subset_size: Annotated[int, Ge(2)] = 1000,
        max_samples: Annotated[int, Ge(2), Le(10**7)] = 10_000,
    ) -> None:
        self.subsets, self.subset_size, self.max_samples = subsets, subset_size, max_samples

    def describe_settings(self, samples: int) -> str:
        """Return the settings with the size of the subsets that are drawn from so few samples."""
        size = min(self.subset_size, self.max_samples, samples)
        return self.settings.replace(f"subset_size {self.subset_size}", f"subset_size {size}")

    def __call__(self, real: FirstFeatures, fake: FirstFeatures) -> dict[str, float]:
        f, g = real.rows.double(), fake.rows.double()
        size = min(self.subset_size, len(f), len(g))
        subsets = 1 if len(f) == len(g) == size else self.subsets
        settings = {"kid_subset_size": size, "kid_subsets": subsets, "rng_seed": 0, "verbose": False}
        figures = needed("torch_fidelity.metric_kid").kid_features_to_metric(f, g, **settings)
        return {"eval/kid": float(figures["kernel_inception_distance_mean"])}
