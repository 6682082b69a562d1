"""What the paired trial of the momentum says, by the analysis that docs/bench.md had before its runs."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import stats

from benching import paired, statistics
from benching.results import Line, Results
from benching.workloads import WORKLOADS
from ganexp.compare.intervals import Interval
from ganexp.compare.ranking import ALPHA, holm
from measuring.markdown import table

FEWEST = 8
"""With fewer seeds there are intervals and no tests."""
AGAINST = "0.0"
"""The momentum that the others are compared with."""


class Runs(NamedTuple):
    """The runs of one rule with one momentum: plateaus and last distances, `(points, seeds)` each."""

    plateaus: np.ndarray
    ends: np.ndarray


@dataclass(frozen=True)
class Comparison:
    """A figure of the analysis.

    Args:
        question: `order`, `forgives` or `lost`.
        workload, division, rule: Where.
        what: What is compared.
        ratio: A ratio of distances; of `forgives`, a ratio of such ratios.
        p: After Holm's correction over the comparisons of the question in the block; NaN without a test.
        seeds: How many.
    """

    question: str
    workload: str
    division: str
    rule: str
    what: str
    ratio: Interval
    p: float
    seeds: int

    @property
    def verdict(self) -> str:
        """Return `above` or `below` 1 if p is below 5 %, or else `open`."""
        if not self.p < ALPHA:
            return "open"
        return "above" if self.ratio.middle > 1 else "below"


def compared(results: Results) -> list[Comparison]:
    """Return all comparisons of the blocks in which two seeds or more are complete."""
    found = []
    for name, divisions in paired.BLOCKS.items():
        for division in divisions:
            block = runs_of(results, name, division)
            if block:
                for question in (order, forgives, lost):
                    found += question(name, division, block)
    return found


def runs_of(results: Results, name: str, division: str, part: str = "test") -> dict[tuple[str, str], Runs]:
    """Return the runs of a block by rule and momentum, of the seeds that are complete; nothing if these are fewer than two.

    Args:
        results: The file.
        name: The workload.
        division: The optimiser.
        part: `test`, or `plain` for the distances of the same runs without averaged weights.
    """
    workload, there = WORKLOADS[name], {replace(line, part="test").identity: line for line in results.of_part(part)}
    wanted = [line for line in paired.runs(workload) if line.division == division]
    missing = {line.seed for line in wanted if line.identity not in there}
    seeds = [seed for seed in range(paired.SEEDS) if seed not in missing]
    if len(seeds) < 2:
        return {}
    points = paired.FEWER_POINTS.get(name, paired.POINTS)

    def line(rule: str, momentum: str, point: int, seed: int) -> Line:
        key = Line("test", workload.key, division=division, rule=paired.named(rule, momentum), point=point, seed=seed)
        return there[key.identity]

    found = {}
    for rule, momentum in itertools.product(paired.TRIED, paired.MOMENTUMS[division]):
        lines = [[line(rule, momentum, point, seed) for seed in seeds] for point in points]
        plateaus, ends = ([[getattr(one, name) for one in of] for of in lines] for name in ("plateau", "end"))
        found[rule, momentum] = Runs(np.array(plateaus), np.array(ends))
    return found


def without_itself(runs: Sequence[Runs]) -> np.ndarray:
    """Return the last distance of each seed, `(seeds,)`, at the rates, or with the rates and the momentum, best for the others.

    Args:
        runs: Those among which is chosen: of one momentum, or of several.
    """
    plateaus, ends = (np.concatenate(those) for those in zip(*runs, strict=True))
    chosen = [
        int(np.argmin(statistics.interquartile_mean(np.delete(plateaus, seed, axis=1)))) for seed in range(plateaus.shape[1])
    ]
    return ends[chosen, np.arange(plateaus.shape[1])]


def order(name: str, division: str, block: dict[tuple[str, str], Runs]) -> list[Comparison]:
    """Return each momentum over 0, for each rule."""
    pairs = {
        (rule, momentum): (without_itself([block[rule, momentum]]), without_itself([block[rule, AGAINST]]))
        for rule, momentum in block
        if momentum != AGAINST
    }
    corrected = _corrected([statistics.p_of(pair) for pair in pairs.values()], block)
    return [
        Comparison(
            "order",
            name,
            division,
            rule,
            f"{momentum} / {AGAINST}",
            statistics.interval(statistics.ratio, [pair]),
            p,
            len(pair[0]),
        )
        for ((rule, momentum), pair), p in zip(pairs.items(), corrected, strict=True)
    ]


def forgives(name: str, division: str, block: dict[tuple[str, str], Runs]) -> list[Comparison]:
    """Return how many times more a simultaneous rule loses by the largest momentum than `detach` does."""
    small, large = min(paired.MOMENTUMS[division], key=float), max(paired.MOMENTUMS[division], key=float)

    def logs(rule: str) -> np.ndarray:
        return statistics.log_ratio(without_itself([block[rule, large]]), without_itself([block[rule, small]]))

    base, *others = paired.TRIED
    differences = {rule: logs(rule) - logs(base) for rule in others}
    corrected = _corrected([float(stats.wilcoxon(of).pvalue) if of.any() else 1.0 for of in differences.values()], block)
    drawn = np.random.default_rng(0)
    found = []
    for (rule, of), p in zip(differences.items(), corrected, strict=True):
        medians = np.median(of[drawn.integers(len(of), size=(statistics.RESAMPLES, len(of)))], axis=1)
        low, high = np.quantile(medians, [ALPHA / 2, 1 - ALPHA / 2])
        ratio = Interval(*map(_ratio, (low, np.median(of), high)))
        found.append(
            Comparison("forgives", name, division, rule, f"({large} / {small}) / the same of {base}", ratio, p, len(of))
        )
    return found


def _ratio(log: float) -> float:
    """Return the ratio of a logarithm that stands between bounded ones, where one of them is of an infinite ratio."""
    return float(np.exp(log)) if abs(log) < statistics.MOST / 4 else math.inf if log > 0 else 0.0


def lost(name: str, division: str, block: dict[tuple[str, str], Runs]) -> list[Comparison]:
    """Return the distance with momentum 0 over that with the momentum that is best for the other seeds, without a test."""
    found = []
    for rule in paired.TRIED:
        best = without_itself([block[rule, momentum] for momentum in paired.MOMENTUMS[division]])
        pair = (without_itself([block[rule, AGAINST]]), best)
        ratio = statistics.interval(statistics.ratio, [pair])
        found.append(Comparison("lost", name, division, rule, f"{AGAINST} / best", ratio, float("nan"), len(best)))
    return found


def _corrected(p: Sequence[float], block: dict[tuple[str, str], Runs]) -> list[float]:
    seeds = next(iter(block.values())).ends.shape[1]
    return [*holm(p)] if seeds >= FEWEST else [float("nan")] * len(p)


def described(results: Results, division: str) -> list[dict[str, str]]:
    """Return what decides nothing, those of a workload and a rule in each row.

    These are the ratios of `order` without averaged weights, and the share of pairs of equal rates and seed in which the
    smaller momentum ends nearer to the data; pairs of two runs that diverged are left out.
    """
    lines = []
    for name, divisions in paired.BLOCKS.items():
        block = runs_of(results, name, division) if division in divisions else {}
        plain = runs_of(results, name, division, "plain") if block else {}
        ratios = {(one.rule, one.what): one.ratio for one in order(name, division, plain)} if plain else {}
        for rule in paired.TRIED if plain else ():
            others = [momentum for momentum in paired.MOMENTUMS[division] if momentum != AGAINST]
            lines.append(
                {
                    "workload": f"`{name}`",
                    "rule": f"`{rule}`",
                    **{f"{of} / {AGAINST}": str(ratios[rule, f"{of} / {AGAINST}"]) for of in others},
                    **dict(_share(block, rule, *sorted((of, AGAINST), key=float)) for of in others),
                }
            )
    return lines


def _share(block: dict[tuple[str, str], Runs], rule: str, small: str, large: str) -> tuple[str, str]:
    better, worse = block[rule, small].ends, block[rule, large].ends
    share = (better < worse)[better != worse].mean() if (better != worse).any() else math.nan
    return f"{small} better than {large}", f"{100 * share:.0f} %"


def near(results: Results, name: str, division: str, distance: float) -> list[dict[str, str]]:
    """Return how many runs of a block end below a distance, over all rates and seeds, by rule and momentum."""
    block = runs_of(results, name, division)
    return [
        {"rule": f"`{rule}`"} | {of: str((block[rule, of].ends < distance).sum()) for of in paired.MOMENTUMS[division]}
        for rule in dict.fromkeys(rule for rule, _ in block)
    ]


def rows(comparisons: Sequence[Comparison], division: str) -> list[dict[str, str]]:
    """Return the comparisons with an optimiser, those of a workload and a rule in each row.

    A star marks a p below 5 %. A workload on which seeds are missing has the number of those that are complete.
    """
    by_place = {(each.workload, each.rule, each.what): each for each in comparisons if each.division == division}
    seeds = {workload: each.seeds for (workload, *_), each in by_place.items()}
    kinds = dict.fromkeys(what for *_, what in by_place)

    def cell(comparison: Comparison | None) -> str:
        return "" if comparison is None else f"{comparison.ratio}{'' if comparison.verdict == 'open' else ' *'}"

    lines = [
        {
            "workload": f"`{workload}`" + (f", {seeds[workload]} seeds" if seeds[workload] < paired.SEEDS else ""),
            "rule": f"`{rule}`",
            **{what: cell(by_place.get((workload, rule, what))) for what in kinds},
        }
        for workload, rule in dict.fromkeys((workload, rule) for workload, rule, _ in by_place)
    ]
    losses = {rule: _over_blocks(comparisons, division, rule) for rule in paired.TRIED} if lines else {}
    return lines + [
        dict.fromkeys(lines[0], "") | {"workload": "all", "rule": f"`{rule}`", f"{AGAINST} / best": loss}
        for rule, loss in losses.items()
    ]


def _over_blocks(comparisons: Sequence[Comparison], division: str, rule: str) -> str:
    """Return the geometric mean of what is lost by a momentum of 0 over the workloads, with the smallest and the largest."""
    place = ("lost", division, rule)
    ratios = [each.ratio.middle for each in comparisons if (each.question, each.division, each.rule) == place]
    return f"{stats.gmean(ratios):.3g} ({min(ratios):.3g} to {max(ratios):.3g})"


def summary(comparisons: Sequence[Comparison]) -> str:
    """Return the comparisons as a table for each optimiser."""
    tables = [table(lines) for division in paired.MOMENTUMS if (lines := rows(comparisons, division))]
    return "\n".join(tables) if tables else "No block has two complete seeds yet."
