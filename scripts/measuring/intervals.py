"""Confidence intervals of means, by Student's t."""

from collections.abc import Sequence

import numpy as np
from scipy import special, stats

from ganexp.compare.intervals import CONFIDENCE, Interval


def of_mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean and Student's confidence interval, infinite for one value, which tells nothing about the spread."""
    mean, half = _mean_and_half(values, confidence)
    return Interval(mean - half, mean, mean + half)


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
