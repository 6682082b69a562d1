"""Measured quantities with their confidence intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

CONFIDENCE = 0.95


@dataclass
class Interval:
    """A measured quantity with its confidence interval."""

    low: float
    middle: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle:.3g} [{self.low:.3g}, {self.high:.3g}]"


def of_median(values: Sequence[float]) -> Interval:
    """Return the median and its distribution-free interval, by order statistics; the range if there are too few values."""
    found = stats.quantile_test(values, p=0.5).confidence_interval(CONFIDENCE)
    low, high = (min(values), max(values)) if np.isnan([found.low, found.high]).any() else (found.low, found.high)
    return Interval(float(low), float(np.median(values)), float(high))


def of_ratio(mine: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Return the median of the ratios taken within each turn, so that drift from one turn to the next cancels."""
    return of_median([a / b for a, b in zip(mine, theirs, strict=True)])


def of_mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean and Student's confidence interval, infinite for one value, which tells nothing about the spread."""
    mean, half = _mean_and_half(values, confidence)
    return Interval(mean - half, mean, mean + half)


def of_resampled_mean(values: Sequence[float]) -> Interval:
    """Return the mean and the percentile interval of its bootstrap (Efron 1979), which holds no impossible value.

    The interval lies between the lowest and the highest value. For few values it is too narrow: for three normal ones, it
    holds the true mean in 75 % of cases, and for five in 85 %.
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(-np.inf, mean, np.inf)
    made = stats.bootstrap(
        (values,), np.mean, confidence_level=CONFIDENCE, method="percentile", vectorized=True, random_state=0
    )
    low, high = made.confidence_interval
    return Interval(min(float(low), mean), mean, max(float(high), mean))  # equal values differ from their mean by rounding


def of_positive_mean(values: Sequence[float]) -> Interval:
    """Return the mean of a quantity that is never negative, with a confidence interval that is never negative either.

    It is Student's interval for the mean's logarithm, by the delta method: mean · exp(± t · standard error / mean).
    """
    mean, half = _mean_and_half(values)
    if not mean > 0:
        return Interval(mean, mean, mean)
    with np.errstate(over="ignore"):
        factor = float(np.exp(half / mean))
    return Interval(mean / factor, mean, mean * factor)


def of_share_mean(values: Sequence[float]) -> Interval:
    """Return the mean of a quantity between 0 and 1, with a confidence interval within the same bounds.

    It is Student's interval for the mean's logit, by the delta method: logit(mean) ± t · standard error / (mean · (1 − mean)).
    """
    mean, half = _mean_and_half(values)
    if not 0 < mean < 1:
        return Interval(mean, mean, mean)
    middle, reach = special.logit(mean), half / (mean * (1 - mean))
    return Interval(float(special.expit(middle - reach)), mean, float(special.expit(middle + reach)))


def _mean_and_half(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, np.inf
    return mean, float(stats.t.ppf((1 + confidence) / 2, len(values) - 1) * stats.sem(values))
