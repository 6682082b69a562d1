"""The Inception score."""

from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from ganexp.evaluation.base import Measure, high
from ganexp.evaluation.features import Features
from ganexp.evaluation.library import needed
from ganexp.evaluation.statistics import FirstLogits
from ganexp.ranges import checked


class InceptionScore(Measure[FirstLogits]):
    """exp of the mean of KL(p(y|x) ‖ p(y)) over generated samples (Salimans et al. 2016), averaged over splits.

    Real samples play no part.

    Args:
        splits: Parts of the set, each with a p(y) of its own.
        max_samples: How many generated samples are looked at, at most; the papers take 50,000.
    """

    keys: ClassVar = {"eval/inception_score": high("Inception score")}
    keeps = FirstLogits
    rank = 3
    library = "torch_fidelity"
    looks_at_reals = False

    @checked
    def __init__(self, *, splits: Annotated[int, Ge(1)] = 10, max_samples: Annotated[int, Ge(10), Le(10**7)] = 10_000) -> None:
        self.splits, self.max_samples = splits, max_samples

    def least(self, features: Features, of: str) -> int:
        return 10 * self.splits

    def __call__(self, real: FirstLogits, fake: FirstLogits) -> dict[str, float]:
        """Return the score, from 1 to the number of classes."""
        found = needed("torch_fidelity.metric_isc").isc_features_to_metric(fake.rows, self.splits, True, 0)
        return {"eval/inception_score": float(found["inception_score_mean"])}
