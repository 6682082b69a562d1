"""The second version of the choice beside the first: what moved, which verdicts change, and what averaged weights do to it."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy import stats

from benching.results import PLATEAU, Arm, Line, Results
from benching.space import is_crossed
from benching.verdicts import Block, outcomes_of


def compared(results: Results, first: Sequence[Block], second: Sequence[Block]) -> dict[str, object] | None:
    """Return what the second version of the choice changes, over the arms that have it; None if there are none.

    Args:
        results: All runs.
        first: The blocks with the points of the first version.
        second: The blocks with the points of the second.
    """
    arms = [
        (block, results.arms[block.workload.key, block.division, one.rule], results.numbers(block.workload.key, block.division))
        for block in first
        for one in (*block.verdicts, *block.added)
    ]
    done = [(block, arm, numbers) for block, arm, numbers in arms if arm.chosen_again(numbers)]
    if not done:
        return None
    moved = [arm.chosen_again(numbers) != arm.chosen(numbers) for _, arm, numbers in done]
    with_own = [any(map(is_crossed, arm.tuning)) for _, arm, _ in done]
    there, all_of = (Counter(block.name for block, *_ in those) for those in (done, arms))
    swept = [(arm.chosen(numbers), [one for n, one in arm.tuning.items() if is_crossed(n)]) for _, arm, numbers in done]
    swept = [(chosen, others) for chosen, others in swept if others]
    pairs = _outcomes(first, second)
    return {
        "of": len(arms),
        "done": len(done),
        "moved": sum(moved),
        "moved_with_own": sum(one for one, own in zip(moved, with_own, strict=True) if own),
        "swept": len(swept),
        "found": sum(min(one.plateau for one in others) < chosen.plateau for chosen, others in swept if chosen),
        "crossed": sum(bool((line := arm.chosen_again(numbers)) and is_crossed(line.point)) for _, arm, numbers in done),
        "span": _span(swept),
        "compared": len(pairs),
        "changed": sum(one != other for one, other in pairs),
        "counts": [Counter(of) for of in zip(*pairs, strict=True)],
        "moves": Counter(pairs),
        "bases": _bases(first, second),
        "plain": _plain(done),
        "partly": {name: (there[name], count) for name, count in all_of.items() if there[name] < count},
        "without_figure": sum(_undecided(arm, numbers) for _, arm, numbers in done),
    }


def _outcomes(first: Sequence[Block], second: Sequence[Block]) -> list[tuple[str, str]]:
    """Return the outcomes by both versions of every comparison fixed beforehand that both have, the rescue workload apart."""
    before, after = (
        {(block.name, one.rule): one.outcome for block in blocks if not block.workload.rescue for one in block.fixed}
        for blocks in (first, second)
    )
    return [(before[key], after[key]) for key in before if key in after]


def _bases(first: Sequence[Block], second: Sequence[Block]) -> list[dict[str, object]]:
    """Return the blocks in which another point of `detach` is chosen, with its distances and how many rules are better there.

    All rules of a block are compared with it, so that its luck in the choice is in every one of their verdicts.
    """
    before, found = {block.name: block for block in first}, []
    for block in second:
        one = before[block.name]
        if not block.workload.rescue and one.base.chosen.point != block.base.chosen.point:
            better, there = ([other for other in of.fixed if other.outcome == "better"] for of in (block, one))
            known = {other.rule for other in block.fixed}
            row = {"name": block.name, "before": one.base.figure.middle, "after": block.base.figure.middle}
            by_first = sum(other.rule in known for other in there)
            beside_first = outcomes_of(block, [(other.ends, one.base.ends) for other in block.fixed])
            counts = {"better": len(better), "by_first": by_first, "fixed": len(known), "still": beside_first.count("better")}
            found.append(row | counts)
    return found


def _undecided(arm: Arm, numbers: Sequence[int]) -> bool:
    """Return whether no finalist has a finite mean over the further seeds, so that the first seed decides."""
    return not any(math.isfinite(_rated(arm, one.point)[0]) for one in arm.finalists(numbers))


def _span(swept: Sequence[tuple[Line | None, Sequence[Line]]]) -> float:
    """Return the median ratio of the worst to the best plateau at fixed rates; infinite where most have one that diverged."""
    ratios = []
    for chosen, others in swept:
        plateaus = [one.plateau for one in others] + ([chosen.plateau] if chosen else [])
        ratios.append(max(plateaus) / min(plateaus))
    return statistics.median(ratios) if ratios else math.nan


def _plain(arms: Sequence[tuple[Block, Arm, Sequence[int]]]) -> dict[str, object]:
    """Return how often plain weights choose another point, how much worse they are, and whether they order rules alike.

    Ranks are compared within blocks, as distances on different workloads differ whatever the rule.
    """
    averaged, plain, others = [], [], 0
    for _, arm, numbers in arms:
        points = [one.point for one in arm.finalists(numbers)]
        rated = {point: _rated(arm, point) for point in points}
        chosen = arm.chosen_again(numbers)
        assert chosen is not None
        others += min(points, key=lambda point: rated[point][1]) != chosen.point
        averaged.append(rated[chosen.point][0])
        plain.append(rated[chosen.point][1])
    one, other = np.array(averaged), np.array(plain)
    finite = np.isfinite(one) & np.isfinite(other)
    return {
        "others": others,
        "ratio": f"{np.median(other[finite] / one[finite]):.2f}" if finite.any() else "–",
        "better": int((other < one).sum()),
        "correlations": _correlations([block for block, *_ in arms], one, other),
    }


def _correlations(blocks: Sequence[Block], one: np.ndarray, other: np.ndarray) -> dict[str, tuple[float, float, float]]:
    """Return the lowest, median and highest rank correlation of two figures of each arm within a block, by optimiser."""
    found: dict[str, list[float]] = {}
    for block in {block.name: block for block in blocks if not block.workload.rescue}.values():
        at = np.array([of is block for of in blocks])
        if at.sum() > 2:
            found.setdefault(block.division, []).append(float(stats.spearmanr(one[at], other[at]).statistic))
    return {division: (min(those), statistics.median(those), max(those)) for division, those in found.items()}


def _rated(arm: Arm, point: int) -> tuple[float, float]:
    """Return the mean over the further seeds of the last figures of a point, with averaged and with plain weights."""
    seeds = [seed for number, seed in arm.choice if number == point]
    ends = [arm.choice[point, seed].plateau for seed in seeds]
    plain = [arm.plain[point, seed] for seed in seeds]
    of_plain = [statistics.fmean(one.figures) if len(one.figures) == PLATEAU else math.inf for one in plain]
    return statistics.fmean(ends), statistics.fmean(of_plain)
