"""The Inception score."""

from typing import ClassVar

from ganexp.evaluation.base import Measure, high
from ganexp.evaluation.errors import EvaluationError
from ganexp.evaluation.features import Features
from ganexp.evaluation.library import needed
from ganexp.evaluation.statistics import FirstLogits

SPLITS = 10
"""Parts of a set."""


class InceptionScore(Measure[FirstLogits]):
    """exp of the mean of KL(p(y|x) ‖ p(y)) over generated samples (Salimans et al. 2016), mean of ten parts.

    Real samples play no part, and of generated ones at most 10,000; the papers take 50,000.
    """

    keys: ClassVar = {"eval/inception_score": high("Inception score")}
    keeps = FirstLogits
    rank = 3
    library = "torch_fidelity"
    looks_at_reals = False

    def refuse(self, features: Features, n: int, of: str) -> None:
        """Refuse features without classes."""
        if not features.classes:
            raise EvaluationError(f"it needs features with classes, and {features.name} have none")
        if n < 10 * SPLITS:
            raise EvaluationError(f"it needs at least {10 * SPLITS} {of} samples, and there are {n}")

    def __call__(self, real: FirstLogits, fake: FirstLogits) -> dict[str, float]:
        """Return the score, from 1 to the number of classes."""
        found = needed("torch_fidelity.metric_isc").isc_features_to_metric(fake.rows, SPLITS, True, 0)
        return {"eval/inception_score": float(found["inception_score_mean"])}
