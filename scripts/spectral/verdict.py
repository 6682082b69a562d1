"""The predictions of the spectra for every rule, the results of its runs, and their correlation."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from scipy import stats

from ganexp import compose
from ganexp.compare.intervals import Interval
from ganexp.compare.ranking import Outcome, Place, ranked
from ganexp.config.assemble import parts_of
from ganexp.config.choices import Choices, chosen_by
from ganexp.config.parsing import parse
from ganexp.config.plain import plain
from ganexp.dynamics import contraction
from spectral.plan import REFERENCE, RULES, SETTINGS
from spectral.runs import Key, Moment

RESAMPLES = 10_000


@dataclass(frozen=True)
class Found:
    """One setting.

    Args:
        seeds: Those with which every rule has been trained.
        predicted: By rule and seed: the factor predicted by the spectra along the reference's run of this seed, a geometric
            mean.
        own: The factor predicted by the spectra along the rule's own run; nan where there are none.
        figures: By rule and seed: what the run has reached; infinite if it diverged.
        times: The iterations to the median of what the reference has reached.
    """

    seeds: list[int]
    predicted: dict[str, list[float]]
    own: dict[str, list[float]]
    figures: dict[str, list[float]]
    times: dict[str, list[float]]

    @property
    def foremost(self) -> str:
        """The rule that is predicted to contract best."""
        return min(self.predicted, key=lambda rule: np.mean(np.log(self.predicted[rule])))

    @functools.cached_property
    def ranking(self) -> list[Place]:
        """Rules by what they reached, the best first; what diverged with all seeds comes last."""
        outcomes = [
            Outcome(f"{rule}-{seed}", rule, str(seed), figure if math.isfinite(figure) else None, "diverged")
            for rule, own in self.figures.items()
            for seed, figure in zip(self.seeds, own, strict=True)
        ]
        (ranking,) = ranked(outcomes)
        return ranking.places

    def correlation(self, predicted: Mapping[str, Sequence[float]], measured: Mapping[str, Sequence[float]]) -> Interval:
        """Return Spearman's rank correlation over rules of what seeds predict and reach in the mean; nan if all are alike.

        Rules are the sample, so the interval is the percentile bootstrap over rules. A mean is infinite where a seed diverged.
        """
        rules = [rule for rule, factors in predicted.items() if not np.isnan(factors).any()]
        x = np.array([np.mean(np.log(predicted[rule])) for rule in rules])
        y = np.array([np.mean(measured[rule]) for rule in rules])
        drawn = np.random.default_rng(0).integers(len(rules), size=(RESAMPLES, len(rules)))
        each = _spearman(x[drawn], y[drawn])
        if np.isnan(each).all():
            return Interval(math.nan, math.nan, math.nan)
        low, high = np.nanquantile(each, [0.025, 0.975])
        return Interval(float(low), float(_spearman(x, y)), float(high))


def _spearman(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the correlation of ranks along the last axis; nan where one side is constant."""
    a, b = (stats.rankdata(side, axis=-1) for side in (x, y))
    a, b = a - a.mean(-1, keepdims=True), b - b.mean(-1, keepdims=True)
    norm = np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    return np.asarray(np.divide((a * b).sum(-1), norm, out=np.full_like(norm, math.nan), where=norm > 0))


def found(setting: str, runs: Mapping[Key, Sequence[Moment]]) -> Found:
    """Return what was found in a setting.

    Raises:
        ValueError: There are fewer than two seeds with which every rule has been trained.
    """
    rate = SETTINGS[setting].rate
    there = {seed for name, _, seed in runs if name == setting}
    seeds = sorted(seed for seed in there if all((setting, rule, seed) in runs for rule in RULES))
    if len(seeds) < 2:
        raise ValueError(f"{setting} has {len(seeds)} seeds with which every rule has been trained, and needs two")

    def along(rule: str, run: Sequence[Moment]) -> float:
        factors = [factor(rule, moment.eigenvalues, rate) for moment in run if moment.eigenvalues]
        return float(np.exp(np.mean(np.log(factors)))) if factors else math.nan

    figures = {rule: [runs[setting, rule, seed][-1].figure for seed in seeds] for rule in RULES}
    target = median(figures[REFERENCE])
    return Found(
        seeds,
        {rule: [along(rule, runs[setting, REFERENCE, seed]) for seed in seeds] for rule in RULES},
        {rule: [along(rule, runs[setting, rule, seed]) for seed in seeds] for rule in RULES},
        figures,
        {rule: [time_to(target, runs[setting, rule, seed]) for seed in seeds] for rule in RULES},
    )


def factor(rule: str, eigenvalues: tuple[complex, ...], rate: float) -> float:
    """Return the factor by which a rule multiplies the distance per iteration on the game that has these eigenvalues."""
    return contraction(parts_of(_choices(rule)).strategy, eigenvalues, rate)


@functools.cache
def _choices(rule: str) -> Choices:
    return chosen_by(parse(plain(compose(*RULES[rule], "logger=[]"))))


def time_to(target: float, run: Sequence[Moment]) -> float:
    """Return after how many iterations a figure falls to the target, on straight lines between moments; infinite if never."""
    before: Moment | None = None
    for moment in run:
        if moment.figure <= target:
            if before is None or not math.isfinite(before.figure):
                return float(moment.iteration)
            share = (before.figure - target) / (before.figure - moment.figure)
            return before.iteration + share * (moment.iteration - before.iteration)
        before = moment
    return math.inf


def answer(settings: Mapping[str, Found]) -> str:
    """Return the answer to the study's question, with the evidence, as sentences."""
    best, said = [], []
    for name, one in settings.items():
        place = next(place for place in one.ranking if place.combination == one.foremost)
        rank = one.ranking.index(place) + 1
        how = one.correlation(one.predicted, one.figures)
        best.append((place.standing in ("best", "not distinguishable") and not place.lost, how.low > 0, how.high < 0))
        ties = sum(other.standing in ("best", "not distinguishable") for other in one.ranking if other is not place)
        tied = f"one of {ties + 1} that cannot be told from the best"
        words = {"best": "the best", "not distinguishable": tied, "worse": "worse than the best"}
        standing = words.get(place.standing, place.standing)
        will = "contract best" if np.mean(np.log(one.predicted[one.foremost])) < 0 else "expand least"
        lost = f", though {len(place.lost)} of its runs diverged" if place.lost and place.values else ""
        said.append(
            f"On the {name}, `{one.foremost}` is predicted to {will}; it ranked {_ordinal(rank)} of {len(one.ranking)} "
            f"rules, {standing if place.values else 'diverged with every seed'}{lost}; "
            f"`{one.ranking[0].combination}` ranked first. The rank correlation of prediction and result is {signed(how)}."
        )
    if all(right and above for right, above, _ in best):
        verdict = "Yes, here."
    elif not any(right for right, *_ in best):
        verdict = "No."
    elif not any(above or below for _, above, below in best):
        verdict = "We cannot tell."
    else:
        verdict = "It depends."
    return " ".join([f"**{verdict}**", *said])


def _ordinal(n: int) -> str:
    return f"{n}{'th' if 10 <= n % 100 <= 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def signed(one: Interval) -> str:
    """Return a correlation with its interval."""
    if math.isnan(one.middle):
        return "not defined"
    return f"{one.middle:.2f} [{one.low:.2f}, {one.high:.2f}]".replace("-", "−")
