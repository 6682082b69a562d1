"""Rankings of combinations of settings by the figures of their seeds, with tests against the best one."""

import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy import stats

from ganexp.compare.intervals import CONFIDENCE, Interval, of_resampled_mean

ALPHA = 1 - CONFIDENCE
COVERED = {2: 50, 3: 75, 4: 79, 5: 85, 6: 86, 8: 88, 10: 90, 15: 92}
"""The coverage of the interval, in per cent, by the number of normal values.

The interval of two or three values is their range, which misses the mean in 2 of 2ⁿ cases; the others were simulated.
"""
MARKS = {"best": "*", "tied": "*", "not distinguishable": "=", "untested": "?"}


@dataclass(frozen=True)
class Outcome:
    """The result of a run, by its name."""

    run: str
    combination: str
    """The name of its settings without the seed."""
    seed: str
    value: float | None = None
    """The figure by which runs are ranked; None if it has none, for a `reason`."""
    reason: str = ""
    basis: str = ""
    """The description of the measurement; figures of different bases are not comparable."""


@dataclass
class Place:
    """A combination in a ranking.

    Args:
        combination: Its name.
        runs: The results of its runs, including those without a figure.
        p: The p-value of its difference from the best one, corrected for the number of comparisons; None if there is no test.
        lead: The standing of the first place: `best`, `tied` if others have the same mean, or `only one`.
    """

    combination: str
    runs: list[Outcome]
    p: float | None = None
    lead: str = ""

    @property
    def lost(self) -> list[Outcome]:
        """Its runs without a figure."""
        return [run for run in self.runs if run.value is None]

    @cached_property
    def values(self) -> dict[str, float]:
        """The figure of each seed: the mean, where a seed was run several times."""
        each: dict[str, list[float]] = defaultdict(list)
        for run in self.runs:
            if run.value is not None:
                each[run.seed].append(run.value)
        return {seed: float(np.mean(values)) for seed, values in each.items()}

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        with np.errstate(all="ignore"):
            return float(np.mean([*self.values.values()]))

    @cached_property
    def interval(self) -> Interval | None:
        """The mean and its confidence interval; None for one seed."""
        if len(self.values) < 2:
            return None
        with np.errstate(all="ignore"):
            return of_resampled_mean(list(self.values.values()))

    @property
    def missing(self) -> set[str]:
        """The seeds without a figure; a seed whose lost run was repeated may have one."""
        return {run.seed for run in self.lost} - self.values.keys()

    @property
    def seeds(self) -> str:
        """The number of seeds with a figure, and of all seeds if some have none: `4 of 5`."""
        n = len(self.values)
        return f"{n} of {n + len(self.missing)}" if self.missing else str(n)

    @property
    def figure(self) -> str:
        """The mean and its interval, as in `12.3 [11.9, 12.7]`; empty if there is no figure."""
        if not self.values:
            return ""
        if self.interval is None:
            return f"{self.mean:.4g}"
        ends = (self.interval.low, self.mean, self.interval.high)
        width = ends[2] - ends[0]
        decimals = max(0, 1 - int(np.floor(np.log10(width)))) if 0 < width < 1e6 else 9
        readable = decimals <= 6 and max(map(abs, ends)) < 1e6
        low, mean, high = (f"{end:.{decimals}f}" if readable else f"{end:.4g}" for end in ends)
        return f"{mean} [{low}, {high}]"

    @property
    def verdict(self) -> str:
        """The p-value of its difference from the best one, or a few words if there is none."""
        if self.p is None:
            return {"untested": "one seed" if len(self.values) == 1 else "best has one seed"}.get(self.standing, self.standing)
        return f"{self.p:.3f}" if self.p >= 0.001 else "<0.001"

    @property
    def standing(self) -> str:
        """Its `lead`, or `not distinguishable` from the best, `worse`, `untested` with one seed, or `no figure`."""
        if not self.values:
            return "no figure"
        if self.lead:
            return self.lead
        if self.p is None:
            return "untested"
        return "worse" if self.p < ALPHA else "not distinguishable"


@dataclass
class Ranking:
    """Combinations with comparable figures of one basis, the best first; those without any figure last."""

    basis: str
    places: list[Place]
    note: str = ""
    """What a reader should know about the figures."""


def ranked(outcomes: Sequence[Outcome], best: str = "lowest") -> list[Ranking]:
    """Return one ranking for each basis, in the order in which they first appear.

    The best combination is chosen by its figures, so each pair of combinations counts as a comparison: otherwise the luckiest
    of many equal ones would be distinguished too often. A combination with figures of several bases has a place in the ranking
    of each.

    Args:
        outcomes: The results of all runs.
        best: Which figures are best: `lowest` or `highest`.
    """
    of_bases: dict[str, dict[str, list[Outcome]]] = defaultdict(lambda: defaultdict(list))
    lost: dict[str, list[Outcome]] = defaultdict(list)
    for run in outcomes:
        (lost if run.value is None else of_bases[run.basis])[run.combination].append(run)
    rankings = []
    for basis, of_combinations in of_bases.items():
        places = [Place(combination, runs + lost.pop(combination, [])) for combination, runs in of_combinations.items()]
        places.sort(key=lambda place: place.mean, reverse=best == "highest")
        tied = [place for place in places if place.mean == places[0].mean]
        for place in tied:
            place.lead = "tied" if len(tied) > 1 else "best" if len(places) > 1 else "only one"
        for place, p in zip(places[1:], _of_best(places), strict=True):
            place.p = p
        rankings.append(Ranking(basis, places))
    rankings = rankings or [Ranking("", [])]
    rankings[-1].places += [Place(combination, runs) for combination, runs in lost.items()]
    return rankings


def notes(rankings: Sequence[Ranking]) -> list[str]:
    """Return sentences that explain how rankings were made, and which runs have no figure."""
    places = [place for ranking in rankings for place in ranking.places]
    standings, lost = {place.standing for place in places}, [run for place in places for run in place.lost]
    legend = ["* best mean"] if "best" in standings else []
    legend += ["* equal means, none of which is the best"] if "tied" in standings else []
    legend += ["= not distinguishable from the best at 5 %"] if "not distinguishable" in standings else []
    legend += ["? not tested, since it or the best has one seed"] if "untested" in standings else []
    sentences = [f"{'; '.join(legend)}."] if legend else []
    sentences += [f"{note[:1].upper()}{note[1:]}." for note in dict.fromkeys(ranking.note for ranking in rankings) if note]
    if several := [len(place.values) for place in places if place.interval]:
        few = min(several)
        interval = "[low, high]: 95 % interval of the mean over seeds, by bootstrap"
        if few <= max(COVERED):
            covered = COVERED[max(n for n in COVERED if n <= few)]
            interval += f"; too narrow for so few: with {few} normal values it covers the true mean in at least {covered} %"
        sentences.append(f"{interval}.")
    if any(place.p is not None for place in places):
        sentences.append(
            "p: two-sided t-test against the best, paired by seed where one combination has all seeds of the other, else "
            "Welch's; corrected by Holm for the comparisons of all pairs, since the best was chosen by its figures."
        )
    if len(rankings) > 1:
        sentences.append("Figures on other data, or by other features, do not compare: each kind is ranked by itself.")
    if any(place.values and place.missing for place in places):
        sentences.append("Where seeds have no figure, the mean is of those that have one, and may flatter.")
    for reason in dict.fromkeys(run.reason for run in lost):
        names = [run.run for run in lost if run.reason == reason]
        sentences.append(f"No figure: {', '.join(names)} {reason}.")
    return sentences


def _of_best(places: Sequence[Place]) -> list[float | None]:
    """Return the corrected p of the first place against each of the others."""
    tested = [place for place in places if len(place.values) > 1]
    pairs = list(combinations(tested, 2))
    corrected = holm([p_of_difference(first.values, second.values) for first, second in pairs])
    p_of = {id(second): p for (first, second), p in zip(pairs, corrected, strict=True) if first is places[0]}
    return [p_of.get(id(place)) for place in places[1:]]


def p_of_difference(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Return the two-sided p-value of the difference of two means, each given as two or more values by seed.

    They are compared seed by seed where one has all seeds of the other, else by Welch's test. Without any spread, t is 0/0 or
    infinite: p is then 1 if the means are equal, and 0 otherwise.
    """
    seeds = [seed for seed in first if seed in second]
    with warnings.catch_warnings(action="ignore"):  # there may be no spread, or figures so large that they overflow
        if len(seeds) in (len(first), len(second)):
            p = stats.ttest_rel([first[seed] for seed in seeds], [second[seed] for seed in seeds]).pvalue
        else:
            p = stats.ttest_ind([*first.values()], [*second.values()], equal_var=False).pvalue
    return 1.0 if np.isnan(p) else float(p)


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values corrected so that any of them falls below α by chance with probability α at most (Holm 1979).

    The i-th smallest of m is multiplied by m − i + 1, and never falls below the corrected value of a smaller one.
    """
    order = np.argsort(p)
    raised = np.maximum.accumulate(np.asarray(p)[order] * np.arange(len(p), 0, -1)) if len(p) else np.array([])
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(raised, 1)
    return [float(value) for value in corrected]
