"""Precision and recall."""

from typing import ClassVar

from ganexp.evaluation.base import Measure, high, refuse_without_neighbours
from ganexp.evaluation.features import Features
from ganexp.evaluation.library import needed
from ganexp.evaluation.statistics import FirstFeatures

NEIGHBOURS = 3
"""k (Kynkäänniemi et al. 2019, section 3)."""


class PrecisionRecall(Measure[FirstFeatures]):
    """Improved precision and recall (Kynkäänniemi et al. 2019, eq. 1–3), with the third neighbour, of at most 10,000 samples.

    Precision is the share of generated samples within the real manifold, recall that of real ones within the generated one.
    """

    keys: ClassVar = {"eval/precision": high("precision"), "eval/recall": high("recall")}
    keeps = FirstFeatures
    rank = 4
    default_of = "images"
    library = "torch_fidelity"

    def refuse(self, features: Features, n: int, of: str) -> None:
        """Refuse sets without a third neighbour."""
        refuse_without_neighbours(n, NEIGHBOURS, of)

    def __call__(self, real: FirstFeatures, fake: FirstFeatures) -> dict[str, float]:
        """Return both shares."""
        compare = needed("torch_fidelity.metric_prc").prc_features_to_metric
        settings = {"prc_neighborhood": NEIGHBOURS, "prc_batch_size": 1000, "save_cpu_ram": True, "verbose": False}
        found = compare(fake.rows, real.rows, **settings)
        return {"eval/precision": found["precision"], "eval/recall": found["recall"]}
