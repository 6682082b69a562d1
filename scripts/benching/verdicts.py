"""What the results say: of each rule in each block, a workload with an optimiser, and in sentences."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benching import statistics
from benching.results import Arm, Line, Results
from benching.rules import BASE, RULES
from benching.running import JUDGEMENTS
from benching.schedule import SEEDS
from benching.space import DIVISIONS, FURTHER, POINTS, point
from benching.statistics import ALPHA, Pair
from benching.workloads import WORKLOADS, Workload
from ganexp.compare.intervals import Interval
from ganexp.compare.ranking import holm

TARGET_AT = 8
"""The target is what the tuned `detach` had, with Adam, at this one of its judgements on the validation split."""


@dataclass(eq=False)
class Verdict:
    """What a rule reached in a block.

    Args:
        rule: Its name.
        chosen: The tuning run whose point was taken.
        ends: The last figure of each seed, infinite where it diverged.
        figure: The interquartile mean of these.
        lost: How many seeds diverged, or collapsed: ended no better than real data without the latter half of the classes.
        curve: The interquartile mean at each judgement.
        searched: The plateaus of all points, on the validation split; infinite where it diverged.
        ratio: Of interquartile means, to `detach`; None of `detach` itself.
        improvement: The probability that a run is better than one of `detach`.
        p: Of the difference to `detach`, by Wilcoxon's test in pairs, corrected by Holm for all comparisons.
        reached: The share of the budget of images after which each seed was as good as the target; infinite where it never was.
        time: How long the budget of images takes, in units of what `detach` takes; NaN where it was not measured.
        at_time: The ratio at equal time; None where no time was measured.
    """

    rule: str
    chosen: Line
    ends: np.ndarray
    figure: Interval
    lost: int
    curve: np.ndarray
    searched: list[float] = field(default_factory=list)
    ratio: Interval | None = None
    improvement: Interval | None = None
    p: float = 1.0
    reached: np.ndarray = field(default_factory=lambda: np.array([]))
    time: float = math.nan
    at_time: Interval | None = None

    @property
    def standing(self) -> str:
        """`better` or `worse` than `detach`, or `alike`: not to be told from it."""
        if self.ratio is None or self.p >= ALPHA:
            return "alike"
        return "better" if self.ratio.middle < 1 else "worse"


@dataclass
class Block:
    """A workload with an optimiser.

    Args:
        workload: The workload.
        division: The name of the optimiser's division.
        verdicts: Of the rules whose runs are complete, the best first.
        lost: Rules all of whose points diverged.
        missing: Rules whose runs are not complete.
        misfits: Rules that do not fit, and why.
        target: The figure that counts as good; None before `detach` was tuned.
    """

    workload: Workload
    division: str
    verdicts: list[Verdict] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    misfits: dict[str, str] = field(default_factory=dict)
    target: float | None = None

    @property
    def name(self) -> str:
        """Its workload, and its optimiser."""
        return f"{self.workload.name}, {self.division}"

    @property
    def complete(self) -> bool:
        """Whether there is nothing left to run."""
        return not self.missing and len(self.verdicts) > 1

    @property
    def base(self) -> Verdict:
        """What `detach` reached."""
        return next(one for one in self.verdicts if one.rule == BASE)

    @property
    def pairs(self) -> dict[str, Pair]:
        """The scores of each rule beside those of `detach`, seed by seed."""
        return {one.rule: (one.ends, self.base.ends) for one in self.verdicts if one.rule != BASE}


def blocks(results: Results) -> list[Block]:
    """Return all blocks in which `detach` is complete, with every rule's verdict, corrected over all of them."""
    found = []
    for workload in WORKLOADS.values():
        for division in DIVISIONS:
            block = _block(results, workload, division)
            if any(one.rule == BASE for one in block.verdicts):
                found.append(block)
    compared = [one for block in found for one in block.verdicts if one.rule != BASE]
    waiting = sum(len(block.missing) for block in found)  # they count among the comparisons, and can only be found alike
    for verdict, p in zip(compared, holm([*(one.p for one in compared), *[1.0] * waiting]), strict=False):
        verdict.p = p
    return found


def comparisons(found: Sequence[Block]) -> int:
    """Return how many comparisons were fixed beforehand in these blocks."""
    return sum(len(block.verdicts) - 1 + len(block.missing) for block in found)


def extended(results: Results, workload: Workload, division: str, rules: Sequence[str]) -> bool:
    """Return whether all rules were tuned at the points of the extension too; else those are left aside, to be fair."""
    arms = [results.arms.get((workload.key, division, rule), Arm()) for rule in rules]
    return all(number in arm.tuning for arm in arms for number in range(POINTS, POINTS + FURTHER))


def _block(results: Results, workload: Workload, division: str) -> Block:
    misfits = {rule: said for (of, rule), said in results.misfits(workload.key).items() if of == division}
    own = {rule for key, of, rule in results.arms if (key, of) == (workload.key, division) and rule not in RULES}
    rules = [rule for rule in (*RULES, *sorted(own)) if rule not in misfits]
    numbers = range(POINTS + FURTHER if extended(results, workload, division, rules) else POINTS)
    block = Block(workload, division, misfits=misfits)
    adam = results.arms.get((workload.key, "adam", BASE), Arm()).chosen(numbers)
    block.target = adam.figures[TARGET_AT - 1] if adam else None
    bound = results.bound(workload.key)
    collapsed = bound.figures[0] if bound else math.inf
    curves: dict[str, np.ndarray] = {}
    costs: dict[str, float] = {}
    for rule in rules:
        arm = results.arms.get((workload.key, division, rule), Arm())
        chosen = arm.chosen(numbers)
        runs = arm.seeds(chosen.point) if chosen else {}
        if all(number in arm.tuning for number in numbers) and chosen is None:
            block.lost.append(rule)
        elif chosen is None or any(seed not in runs for seed in range(SEEDS)):
            block.missing.append(rule)
        else:
            seeds = [runs[seed] for seed in range(SEEDS)]
            curves[rule] = np.array([_curve(line) for line in seeds])
            costs[rule] = float(np.median([line.cpu_s for line in seeds]))
            verdict = _alone(rule, chosen, curves[rule], block.target, collapsed)
            verdict.searched = [arm.tuning[number].plateau for number in numbers]
            block.verdicts.append(verdict)
    if BASE in curves:
        measured = results.times(workload.key)
        for verdict in block.verdicts:
            _beside(verdict, curves, measured or {rule: cost / costs[BASE] for rule, cost in costs.items()})
    block.verdicts.sort(key=lambda one: one.figure.middle)
    return block


def _curve(line: Line) -> np.ndarray:
    """Return the figures of all judgements, infinite from where the run diverged."""
    return np.array([*line.figures, *[math.inf] * (JUDGEMENTS - len(line.figures))])


def _alone(rule: str, chosen: Line, curves: np.ndarray, target: float | None, bound: float) -> Verdict:
    ends = curves[:, -1]
    figure = statistics.interval(lambda pairs: statistics.interquartile_mean(pairs[0][0]), [(ends, ends)])
    good = curves <= (-math.inf if target is None else target)
    reached = np.where(good.any(1), (good.argmax(1) + 1) / JUDGEMENTS, math.inf)
    curve = statistics.interquartile_mean(curves.T)
    return Verdict(rule, chosen, ends, figure, int((ends >= bound).sum()), curve, reached=reached)


def _beside(verdict: Verdict, curves: Mapping[str, np.ndarray], times: Mapping[str, float]) -> None:
    """Compare a rule with `detach`, at the end of the budget of images and, where that takes longer, of time."""
    verdict.time = times.get(verdict.rule, math.nan)
    if verdict.rule == BASE:
        return
    pairs = [(verdict.ends, curves[BASE][:, -1])]
    verdict.ratio = statistics.interval(statistics.ratio, pairs)
    verdict.improvement = statistics.interval(statistics.improvement, pairs)
    verdict.p = statistics.p_of(pairs)
    if math.isfinite(verdict.time):
        share = min(1.0, 1 / verdict.time)
        there = np.array([np.interp(share * JUDGEMENTS, range(1, JUDGEMENTS + 1), curve) for curve in curves[verdict.rule]])
        verdict.at_time = statistics.interval(statistics.ratio, [(there, curves[BASE][:, -1])])


def conclusions(found: Sequence[Block]) -> list[str]:
    """Return what the blocks say, a sentence or two for each that is complete."""
    said = []
    for block in found:
        if not block.complete:
            continue
        standing = {kind: [one for one in block.verdicts if one.rule != BASE and one.standing == kind] for kind in KINDS}
        better = ", ".join(f"`{one.rule}` (× {one.ratio.middle:.2f})" for one in standing["better"] if one.ratio)
        worse = ", ".join(f"`{one.rule}` (× {one.ratio.middle:.2f})" for one in standing["worse"] if one.ratio)
        alike = ", ".join(f"`{one.rule}`" for one in standing["alike"])
        lost = ", ".join(f"`{one.rule}` {one.lost}" for one in block.verdicts if one.lost)
        slower = ", ".join(
            f"`{one.rule}`" for one in standing["better"] if one.at_time and one.at_time.high >= 1 and one.time > 1
        )
        said.append(
            f"- **{block.name}.** Better than `detach`: {better or 'none'}. Worse: {worse or 'none'}. "
            f"Not to be told from it: {alike or 'none'}."
            + (f" At equal time, of the better ones this is no longer certain for {slower}." if slower else "")
            + (f" Seeds that diverged or collapsed, of {SEEDS}: {lost}." if lost else "")
            + (f" No point at all held: {', '.join(f'`{rule}`' for rule in block.lost)}." if block.lost else "")
        )
    return said


KINDS = ("better", "alike", "worse")


def edges(block: Block) -> dict[str, tuple[str, ...]]:
    """Return which settings of the chosen points lie at an end of their range, by rule."""
    found = {}
    for verdict in block.verdicts:
        own = RULES[verdict.rule].coefficients if verdict.rule in RULES else ()
        found[verdict.rule] = point(verdict.chosen.point, DIVISIONS[block.division], own).edges
    return found
