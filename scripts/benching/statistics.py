"""Statistics of runs over seeds: interquartile means, intervals, improvement, profiles, tests and their power.

Scores are figures: the lowest is best, and a run that diverged has an infinite one. The statistics are those of Agarwal et
al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice".
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import optimize, special, stats

from ganexp.compare.intervals import Interval
from ganexp.compare.ranking import ALPHA

Scores = Sequence[float] | np.ndarray
Pair = tuple[Scores, Scores]
"""The scores of a rule and of the one that it is compared with, seed by seed, on one workload."""
RESAMPLES = 2000
POWER = 0.8
MOST = 100.0
"""The log ratio of a run that diverged to one that did not."""


def interquartile_mean(scores: Scores) -> np.ndarray:
    """Return the mean of the middle half along the last axis: a quarter that diverged does not move it.

    Where a quarter is not a whole number of scores, those at the ends count in part.
    """
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=-1)
    n = ordered.shape[-1]
    within = np.clip(np.minimum(np.arange(n) + 1, 0.75 * n) - np.maximum(np.arange(n), 0.25 * n), 0, 1)
    taken = within > 0
    return np.asarray(ordered[..., taken] @ within[taken] / within.sum())


def ratio(pairs: Sequence[Pair]) -> np.ndarray:
    """Return the ratio of interquartile means, below 1 where the first is better; over workloads, its geometric mean.

    It is infinite if the first has an infinite mean on any workload, and 0 if only the second has one.
    """
    logs = np.stack([log_ratio(interquartile_mean(one), interquartile_mean(other)) for one, other in pairs])
    finite = np.exp(logs.mean(0))
    return np.where((logs >= MOST).any(0), math.inf, np.where((logs <= -MOST).any(0), 0.0, finite))


def improvement(pairs: Sequence[Pair]) -> np.ndarray:
    """Return the probability that a run of the first is better than one of the second, ties counting half.

    Over workloads, it is the mean.
    """
    wins = []
    for one, other in pairs:
        a, b = np.asarray(one)[..., :, None], np.asarray(other)[..., None, :]
        wins.append(((a < b) + 0.5 * (a == b)).mean((-2, -1)))
    return np.asarray(np.mean(wins, axis=0))


def interval(statistic: Callable[[Sequence[Pair]], np.ndarray], pairs: Sequence[Pair]) -> Interval:
    """Return a statistic with its percentile interval by stratified bootstrap: seeds are drawn within each workload, in pairs.

    Args:
        statistic: Taken over scores along the last axis of its arrays.
        pairs: The scores.
    """
    drawn = np.random.default_rng(0)
    arrays = [(np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)) for one, other in pairs]
    chosen = [drawn.integers(len(one), size=(RESAMPLES, len(one))) for one, _ in arrays]
    found = statistic([(one[at], other[at]) for (one, other), at in zip(arrays, chosen, strict=True)])
    low, high = np.quantile(found, [ALPHA / 2, 1 - ALPHA / 2], method="inverted_cdf")
    return Interval(float(low), float(statistic(arrays)), float(high))


def p_of(pair: Pair) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test of the logarithms of ratios, paired by seed.

    Two runs that both diverged count as equal.
    """
    logs = _logs(pair)
    return float(stats.wilcoxon(logs).pvalue) if logs.any() else 1.0


def profile(scores: Scores, at: Scores) -> np.ndarray:
    """Return the share of runs whose score is at most `at`, for each of its values: a performance profile."""
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    return np.searchsorted(ordered, np.asarray(at), side="right") / len(ordered)


def power(effect: float, n: int, alpha: float) -> float:
    """Return the chance that Wilcoxon's test of `n` normal differences finds a mean of `effect` standard deviations.

    It is that of the two-sided t-test with 3/π times as many differences, 3/π being Wilcoxon's asymptotic efficiency.
    """
    effective = n * 3 / math.pi
    degrees = effective - 1
    bound = float(special.stdtrit(degrees, 1 - alpha / 2))
    shift = effect * math.sqrt(effective)
    other_side = np.nan_to_num(stats.nct.cdf(-bound, degrees, shift))  # for large effects SciPy gives up on a number close to 0
    return float(stats.nct.sf(bound, degrees, shift) + other_side)


def detectable(n: int, comparisons: int) -> float:
    """Return the smallest effect, in standard deviations, that the first of Holm's steps finds with a chance of `POWER`."""
    alpha = ALPHA / max(1, comparisons)
    enough = 0.1
    while power(enough, n, alpha) < POWER:
        enough *= 2
    return float(optimize.brentq(lambda effect: power(effect, n, alpha) - POWER, 0, enough))


def spread(pair: Pair) -> float:
    """Return the spread of log ratios over the seeds with which neither run diverged.

    It is the interquartile range in units of the standard deviation of a normal distribution, which outliers do not move.
    """
    finite = _logs(pair)[np.isfinite(np.asarray(pair)).all(0)]
    return float(stats.iqr(finite, scale="normal")) if len(finite) > 1 else math.nan


def best_of(values: Sequence[float], budget: int) -> float:
    """Return the mean of the best of `budget` values (at most all), over all ways to choose them."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = len(ordered)
    budget = min(budget, n)
    ways = np.array([math.comb(n - 1 - i, budget - 1) for i in range(n)]) / math.comb(n, budget)
    taken = ways > 0
    return float(ways[taken] @ ordered[taken])


def _logs(pair: Pair) -> np.ndarray:
    one, other = pair
    return log_ratio(np.asarray(one), np.asarray(other))


def log_ratio(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return log(one / other), within bounds where one of them is infinite, and 0 where both are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.clip(np.log(one) - np.log(other), -MOST, MOST)
    return np.where(one == other, 0.0, logs)
