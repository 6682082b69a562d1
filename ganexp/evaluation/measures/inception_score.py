"""The Inception score: averaged over splits, and at infinitely many samples."""

import math
from statistics import linear_regression
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from ganexp.evaluation.base import Measure, high
from ganexp.evaluation.features import Features, needed
from ganexp.evaluation.statistics import FirstLogits
from ganexp.ranges import checked


class InceptionScore(Measure[FirstLogits]):
    """exp of the mean of KL(p(y|x) ‖ p(y)) over generated samples (Salimans et al. 2016), averaged over splits.

    Args:
        splits: Number of parts of the set, each with its own p(y).
        max_samples: The maximum number of generated samples; 50,000 in the papers.
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
        figures = needed("torch_fidelity.metric_isc").isc_features_to_metric(fake.rows, self.splits, True, 0)
        return {"eval/inception_score": float(figures["inception_score_mean"])}


class InceptionScoreInfinity(Measure[FirstLogits]):
    """Inception score extrapolated to infinitely many samples (Chong & Forsyth 2020, section 4).

    The score of N samples is too low by a term proportional to 1/N. It is measured, without splits, on 1/`sizes`, 2/`sizes`, …,
    all of the samples, and the straight line through the scores over 1/N is extrapolated to 1/N = 0.

    Departures: as for `FIDInfinity`.

    Args:
        sizes: The number of values of N.
        max_samples: The maximum number of generated samples.
    """

    keys: ClassVar = {"eval/inception_score_infinity": high("Inception score at infinitely many samples")}
    keeps = FirstLogits
    looks_at_reals = False

    @checked
    def __init__(
        self, *, sizes: Annotated[int, Ge(2), Le(100)] = 10, max_samples: Annotated[int, Ge(100), Le(10**7)] = 50_000
    ) -> None:
        self.sizes, self.max_samples = sizes, max_samples

    def least(self, features: Features, of: str) -> int:
        return 100 * self.sizes

    def __call__(self, real: FirstLogits, fake: FirstLogits) -> dict[str, float]:
        log_p = fake.rows.double().log_softmax(1)
        sizes = [len(log_p) * part // self.sizes for part in range(1, self.sizes + 1)]
        p, scores = log_p.exp(), []
        for n in sizes:
            marginal = log_p[:n].logsumexp(0) - math.log(n)
            scores.append(float((p[:n] * (log_p[:n] - marginal)).sum(1).mean().exp()))
        return {"eval/inception_score_infinity": linear_regression([1 / n for n in sizes], scores).intercept}
