"""What an experiment returns, and the rules by which its verdict follows from what was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import special, stats

NOTICEABLE = 1.02
"""A ratio of times below this is not worth a claim."""

CONFIDENCE = 0.95


class Verdict(StrEnum):
    """What the measurements say of a claim."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    DEPENDS = "depends"
    UNDECIDED = "undecided"  # the interval is too wide for any of the others


@dataclass
class Interval:
    """A measured quantity with its confidence interval."""

    low: float
    middle: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle:.3g} [{self.low:.3g}, {self.high:.3g}]"


@dataclass
class Finding:
    """A claim, the verdict and its reason in one sentence, the evidence as Markdown, and figures with captions."""

    number: int
    claim: str
    verdict: Verdict
    reason: str
    evidence: str
    figures: dict[str, Figure] = field(default_factory=dict)


def of_median(values: Sequence[float]) -> Interval:
    """Return the median and its distribution-free confidence interval, by order statistics; the range if values are few."""
    found = stats.quantile_test(values, p=0.5).confidence_interval(CONFIDENCE)
    low, high = (min(values), max(values)) if np.isnan([found.low, found.high]).any() else (found.low, found.high)
    return Interval(float(low), float(np.median(values)), float(high))


def of_mean(values: Sequence[float]) -> Interval:
    """Return the mean and Student's confidence interval; one value tells nothing about its spread."""
    mean, half = _mean_and_half(values)
    return Interval(mean - half, mean, mean + half)


def of_positive_mean(values: Sequence[float]) -> Interval:
    """Return the mean of a quantity that is never negative, with a confidence interval that is not either.

    Student's interval for the mean's logarithm, by the delta method: mean · exp(± t · standard error / mean).
    """
    mean, half = _mean_and_half(values)
    if not mean > 0:
        return Interval(mean, mean, mean)
    with np.errstate(over="ignore"):
        factor = float(np.exp(half / mean))
    return Interval(mean / factor, mean, mean * factor)


def of_share_mean(values: Sequence[float]) -> Interval:
    """Return the mean of a quantity between 0 and 1, with a confidence interval that lies there too.

    Student's interval for the mean's logit, by the delta method: logit(mean) ± t · standard error / (mean · (1 − mean)).
    """
    mean, half = _mean_and_half(values)
    if not 0 < mean < 1:
        return Interval(mean, mean, mean)
    middle, reach = special.logit(mean), half / (mean * (1 - mean))
    return Interval(float(special.expit(middle - reach)), mean, float(special.expit(middle + reach)))


def at_least(bound: float, interval: Interval) -> Verdict:
    """Confirm that a quantity exceeds a bound if its whole interval does, refute it if none of it does."""
    if interval.low > bound:
        return Verdict.CONFIRMED
    return Verdict.REFUTED if interval.high < bound else Verdict.UNDECIDED


def about(factor: float, interval: Interval) -> Verdict:
    """Confirm a claimed speed-up if the measured one lies nearer to it than to none, on a logarithmic scale."""
    return at_least(factor**0.5, interval)


def together(verdicts: Mapping[tuple[str, str], Verdict]) -> tuple[Verdict, str]:
    """Join verdicts, each on a case under a condition: one word if they agree, else `depends`, and on what."""
    kinds = list(dict.fromkeys(verdicts.values()))
    if len(kinds) == 1:
        return kinds[0], f"{kinds[0].capitalize()} in every case"
    said = []
    for kind in kinds:
        cases: dict[str, list[str]] = {}
        for (case, condition), verdict in verdicts.items():
            if verdict is kind:
                cases.setdefault(case, []).append(condition)
        in_all = {case: len(found) == sum(name == case for name, _ in verdicts) for case, found in cases.items()}
        named = [case if in_all[case] else f"{case} ({', '.join(found)})" for case, found in cases.items()]
        said.append(f"{kind}: {'; '.join(named)}")
    return Verdict.DEPENDS, ". ".join(part[0].upper() + part[1:] for part in said)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay rows with equal keys out as a Markdown table."""
    lines = ["| " + " | ".join(rows[0]) + " |", "| " + " | ".join("---" for _ in rows[0]) + " |"]
    lines += ["| " + " | ".join(_cell(value) for value in row.values()) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _mean_and_half(values: Sequence[float]) -> tuple[float, float]:
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, np.inf
    return mean, float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * stats.sem(values))


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value).replace("|", "\\|")
