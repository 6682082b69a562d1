"""Precision and recall."""

from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from ganexp.evaluation.base import Measure, high
from ganexp.evaluation.features import Features, needed
from ganexp.evaluation.statistics import FirstFeatures
from ganexp.ranges import checked


class PrecisionRecall(Measure[FirstFeatures]):
    """Improved precision and recall (Kynkäänniemi et al. 2019, eq. 1–3).

    Precision is the share of generated samples within the real manifold, recall that of real ones within the generated one.

    Args:
        neighbours: k; a sample's ball reaches to its k-th nearest neighbour; 3 in the paper.
        max_samples: The maximum number of samples of each set.
    """

    keys: ClassVar = {"eval/precision": high("precision"), "eval/recall": high("recall")}
    keeps = FirstFeatures
    rank = 4
    default_of = "images"
    library = "torch_fidelity"

    @checked
    def __init__(
        self, *, neighbours: Annotated[int, Ge(1), Le(1000)] = 3, max_samples: Annotated[int, Ge(2), Le(10**7)] = 10_000
    ) -> None:
        self.neighbours, self.max_samples = neighbours, max_samples

    def least(self, features: Features, of: str) -> int:
        return self.neighbours + 1

    def __call__(self, real: FirstFeatures, fake: FirstFeatures) -> dict[str, float]:
        compare = needed("torch_fidelity.metric_prc").prc_features_to_metric
        settings = {"prc_neighborhood": self.neighbours, "prc_batch_size": 1000, "save_cpu_ram": True, "verbose": False}
        figures = compare(fake.rows, real.rows, **settings)
        return {"eval/precision": figures["precision"], "eval/recall": figures["recall"]}
