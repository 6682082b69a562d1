"""The verdict on each rule in each block (a workload with an optimiser), as figures and sentences."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benching import statistics
from benching.checks import NEXT_BEST
from benching.results import PLATEAU, Line, Results
from benching.rules import ADDED, BASE, RULES
from benching.running import JUDGEMENTS
from benching.schedule import SEEDS
from benching.space import DIVISIONS, POINTS
from benching.statistics import Pair
from benching.workloads import WORKLOADS, Workload
from ganexp.compare.intervals import Interval
from ganexp.compare.ranking import ALPHA, holm
from measuring.intervals import of_mean

SAME = 0.1
"""How far the ends of a ratio's interval may lie from 1, on either side, where a rule counts as equal to `detach`."""
TARGET_AT = 8
"""The target is the interquartile mean of `detach` at this judgement, counted from 1."""


@dataclass(eq=False)
class Verdict:
    """The results of a rule in a block.

    Args:
        rule: Its name.
        chosen: The tuning run whose point was taken.
        ends: The last figure of each seed, infinite where it diverged.
        plateaus: The mean of the last figures of each seed, as points are rated; infinite where it diverged.
        best: The lowest figure of each seed.
        figure: The interquartile mean of `ends`.
        lost: How many seeds diverged, or collapsed: ended no better than real data without the latter half of the classes.
        curve: The interquartile mean at each judgement.
        searched: The plateaus of all points, on the validation split; infinite where it diverged.
        reached: The share of the budget of images after which each seed was as good as the target; infinite where it never was.
        ratio: The ratio of interquartile means to `detach`; None for `detach` itself.
        improvement: The probability that a run is better than one of `detach`.
        uncorrected: The p-value of the difference from `detach`, by Wilcoxon's test in pairs.
        p: The same, corrected by Holm for all comparisons of the block.
        time: How long the budget of images takes, relative to `detach`; NaN where it was not measured.
        at_time: The ratio at equal time; None where no time was measured.
    """

    rule: str
    chosen: Line
    ends: np.ndarray
    plateaus: np.ndarray
    best: np.ndarray
    figure: Interval
    lost: int
    curve: np.ndarray
    searched: list[float]
    reached: np.ndarray
    ratio: Interval | None = None
    improvement: float | None = None
    uncorrected: float = 1.0
    p: float = 1.0
    time: float = math.nan
    at_time: Interval | None = None

    @property
    def standing(self) -> str:
        """`better` or `worse` than `detach`, where means, pairs and the test agree; else `unclear`."""
        if self.ratio is None or self.improvement is None:
            return "unclear"
        return standing(self.ratio.middle, self.improvement, self.p)

    @property
    def outcome(self) -> str:
        """`better`, `worse`, `equal` to `detach` within 10 %, or `open`: not decided."""
        return outcome(self.standing, self.ratio)

    @property
    def at_equal_time(self) -> str:
        """`better` or `worse` than `detach` at equal time, where the interval lies on one side of 1; else `unclear`."""
        return side(self.at_time)


@dataclass
class Block:
    """A workload with an optimiser.

    Args:
        workload: The workload.
        division: The name of the optimiser's division.
        verdicts: The verdicts on the rules whose runs are complete, the best first.
        added: Those on the rules that were added later, which count in nothing else.
        lost: Rules all of whose points diverged.
        missing: Rules whose runs are not complete.
        misfits: Rules that do not fit, and why.
        target: The figure that counts as good; None before `detach` was run.
        floor: What real data score; None if it was not computed.
        runners_up: The last figures of `detach` at its next-best points, by point, as far as these are complete.
        extended: Whether the points of the extension count.
    """

    workload: Workload
    division: str
    verdicts: list[Verdict] = field(default_factory=list)
    added: list[Verdict] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    misfits: dict[str, str] = field(default_factory=dict)
    target: float | None = None
    floor: float | None = None
    extended: bool = False
    runners_up: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its workload, and its optimiser."""
        return f"{self.workload.name}, {self.division}"

    @property
    def complete(self) -> bool:
        """Whether all runs of the bench's own rules are done."""
        return not set(self.missing) & set(RULES) and len(self.verdicts) > 1

    @property
    def tells(self) -> bool:
        """Whether it is complete and `detach` learns in it, so that most of its seeds have figures."""
        return self.complete and self.base.lost <= SEEDS / 2

    @property
    def comparisons(self) -> int:
        """How many comparisons with `detach` were fixed beforehand: one for each of the bench's own rules that fit."""
        return len(set(RULES) - set(self.misfits)) - 1

    @property
    def fixed(self) -> list[Verdict]:
        """The verdicts of the comparisons that were fixed beforehand, as far as they are complete."""
        return [one for one in self.verdicts if one.rule in RULES and one.rule != BASE]

    @property
    def base(self) -> Verdict:
        """The results of `detach`."""
        return next(one for one in self.verdicts if one.rule == BASE)

    @property
    def pairs(self) -> dict[str, Pair]:
        """The scores of each rule beside those of `detach`, seed by seed; infinite for a rule that diverged at every point."""
        ends = {one.rule: one.ends for one in self.verdicts} | {rule: np.full(SEEDS, math.inf) for rule in self.lost}
        return {rule: (scores, self.base.ends) for rule, scores in ends.items() if rule != BASE}

    def outcome(self, rule: str) -> str:
        """Return how a rule compares with `detach`: worse if it diverged at every point, and empty if it was not run."""
        found = [one.outcome for one in self.verdicts if one.rule == rule]
        return found[0] if found else "worse" if rule in self.lost else ""


@dataclass(frozen=True)
class Overall:
    """The results of a rule with an optimiser over all workloads in which `detach` learns.

    Args:
        rule: Its name.
        ratio: The ratio to `detach`: the geometric mean over the workloads on which both have a finite one; infinite if there
            are none.
        over_workloads: The same mean, with Student's interval of its logarithm over workloads; None for fewer than two.
        finite: How many workloads these are.
        improvement: The probability that a run is better than one of `detach`, the mean over workloads.
        outcomes: How it compares with `detach` on each workload.
        lost: How many seeds diverged or collapsed, over all workloads.
    """

    rule: str
    ratio: float
    over_workloads: Interval | None
    finite: int
    improvement: float
    outcomes: tuple[str, ...]
    lost: int

    @property
    def share(self) -> str:
        """Of how many workloads the ratio is; empty if it is of all."""
        return "" if self.finite == len(self.outcomes) else f" ({self.finite} of {len(self.outcomes)})"

    @property
    def losses(self) -> str:
        """Its lost seeds among all; empty if there are none."""
        return f"{self.lost} of {SEEDS * len(self.outcomes)}" if self.lost else ""


def blocks(results: Results, *, again: bool = False) -> list[Block]:
    """Return all blocks in which `detach` is complete, with every rule's verdict; workloads with an L1 term are no blocks.

    Args:
        results: All runs.
        again: Whether points are those of the second version of the choice; rules without it are missing then.
    """
    workloads = [workload for workload in WORKLOADS.values() if not workload.of_order]
    found = [_block(results, workload, division, again) for workload in workloads for division in DIVISIONS]
    found = [block for block in found if any(one.rule == BASE for one in block.verdicts)]
    for block in found:
        _correct(block)
    return found


def _correct(block: Block) -> None:
    """Correct the p-values of a block by Holm: the bench's own rules among themselves, another rule together with them."""
    fixed = block.fixed
    values = [*(one.uncorrected for one in fixed), *[1.0] * (block.comparisons - len(fixed))]  # the rest are not tested
    for one in (*block.verdicts, *block.added):
        if one.rule not in RULES:
            one.p = holm([one.uncorrected, *values])[0]
    for one, p in zip(fixed, holm(values), strict=False):
        one.p = p


def overturned(found: Sequence[Block]) -> list[tuple[Block, Verdict]]:
    """Return the verdicts that would not stand if p were corrected for all comparisons of all blocks."""
    fixed = [(block, one) for block in found for one in block.fixed]
    untested = sum(block.comparisons for block in found) - len(fixed)
    values = holm([*(one.uncorrected for _, one in fixed), *[1.0] * untested])
    return [one for one, p in zip(fixed, values, strict=False) if one[1].standing != "unclear" and p >= ALPHA]


def overall(found: Sequence[Block], division: str) -> list[Overall]:
    """Return what each rule reached with an optimiser over all workloads that tell, first the one with the best chance.

    Rules that were not run on all of them, for example because they do not fit, come after the others.
    """
    telling = [block for block in found if block.division == division and block.tells]
    entries = []
    for rule in dict.fromkeys(rule for block in telling for rule in block.pairs):
        of = [block for block in telling if rule in block.pairs]
        pairs = [block.pairs[rule] for block in of]
        lost = sum(one.lost for block in of for one in block.verdicts if one.rule == rule)
        finite = [pair for pair in pairs if np.isfinite(statistics.interquartile_mean(np.array(pair))).all()]
        entries.append(
            Overall(
                rule,
                float(statistics.ratio(finite)) if finite else math.inf,
                over_workloads([float(statistics.ratio([pair])) for pair in finite]),
                len(finite),
                float(statistics.improvement(pairs)),
                tuple(block.outcome(rule) for block in of),
                lost + SEEDS * sum(rule in block.lost for block in of),
            )
        )
    return sorted(entries, key=lambda one: (len(one.outcomes) < len(telling), -one.improvement, one.ratio))


def _block(results: Results, workload: Workload, division: str, again: bool) -> Block:
    misfits = {rule: said for (of, rule), said in results.misfits(workload.key).items() if of == division}
    tuned = {rule for (key, of, rule), arm in results.arms.items() if (key, of) == (workload.key, division) and arm.tuning}
    rules = [rule for rule in (*RULES, *sorted(tuned - {*RULES})) if rule not in misfits]
    numbers = results.numbers(workload.key, division)
    block = Block(workload, division, misfits=misfits, extended=len(numbers) > POINTS)
    bound, floor = results.bound(workload.key), results.floor(workload.key)
    collapsed = bound.figures[0] if bound else math.inf
    block.floor = floor.figures[0] if floor else None
    curves: dict[str, np.ndarray] = {}
    for rule in rules:
        arm = results.arms[workload.key, division, rule]
        first = arm.chosen(numbers)
        chosen = arm.chosen_again(numbers) if again else first
        runs = arm.seeds(chosen.point) if chosen else {}
        if all(number in arm.tuning for number in numbers) and first is None:
            block.lost += [rule] if rule not in ADDED else []
        elif chosen is None or any(seed not in runs for seed in range(SEEDS)):
            block.missing.append(rule)
        else:
            seeds = [runs[seed] for seed in range(SEEDS)]
            curves[rule] = np.array([_curve(line) for line in seeds])
            if rule == BASE:
                block.target = float(statistics.interquartile_mean(curves[rule].T)[TARGET_AT - 1])
            searched = [arm.tuning[number].plateau for number in numbers]
            own = block.added if rule in ADDED else block.verdicts
            own.append(_alone(rule, chosen, searched, curves[rule], block.target, collapsed))
    if BASE in curves:
        runs_at = results.runners_up(workload.key, division)
        for line in results.arms[workload.key, division, BASE].ranked(numbers)[1 : NEXT_BEST + 1]:
            runs = runs_at.get(line.point, {})
            if all(seed in runs for seed in range(SEEDS)):
                block.runners_up[line.point] = np.array([runs[seed].end for seed in range(SEEDS)])
        for verdict in (*block.verdicts, *block.added):
            _beside(verdict, curves, results.times(workload.key))
    block.verdicts.sort(key=lambda one: one.figure.middle)
    return block


def _curve(line: Line) -> np.ndarray:
    """Return the figures of all judgements, infinite from where the run diverged; if it did, at least the last one is."""
    judged = [*line.figures, *[math.inf] * (JUDGEMENTS - len(line.figures))]
    return np.array([*judged[:-1], line.end])


def _alone(rule: str, chosen: Line, searched: list[float], curves: np.ndarray, target: float | None, bound: float) -> Verdict:
    ends, plateaus = curves[:, -1], curves[:, -PLATEAU:].mean(1)
    figure = statistics.interval(lambda pairs: statistics.interquartile_mean(pairs[0][0]), [(ends, ends)])
    good = curves <= (-math.inf if target is None else target)
    reached = np.where(good.any(1), (good.argmax(1) + 1) / JUDGEMENTS, math.inf)
    curve = statistics.interquartile_mean(curves.T)
    return Verdict(rule, chosen, ends, plateaus, curves.min(1), figure, int((ends >= bound).sum()), curve, searched, reached)


def _beside(verdict: Verdict, curves: Mapping[str, np.ndarray], times: Mapping[str, float]) -> None:
    """Compare a rule with `detach`, at the end of the budget of images and, if it was timed, at equal time."""
    verdict.time = times.get(verdict.rule, math.nan)
    if verdict.rule == BASE:
        return
    pairs = [(verdict.ends, curves[BASE][:, -1])]
    verdict.ratio = statistics.interval(statistics.ratio, pairs)
    verdict.improvement = float(statistics.improvement(pairs))
    verdict.uncorrected = statistics.p_of(pairs[0])
    if math.isnan(verdict.time):
        return
    whole, share = (min(1.0, time) * JUDGEMENTS for time in (verdict.time, 1 / verdict.time))
    if min(whole, share) >= 1:  # before the first judgement there is no figure
        there, of_base = _at(share, curves[verdict.rule]), _at(whole, curves[BASE])
        verdict.at_time = statistics.interval(statistics.ratio, [(there, of_base)])


def _at(judgement: float, curves: np.ndarray) -> np.ndarray:
    """Return the figures of all seeds at a judgement, interpolated where it is not a whole number."""
    return np.array([np.interp(judgement, range(1, JUDGEMENTS + 1), curve) for curve in curves])


def beside_next_best(block: Block) -> dict[str, Interval]:
    """Return the ratios of the rules better than `detach` to `detach` at whichever of its points the interval reaches highest.

    Empty if `detach` was not run at its next-best points.
    """
    return {
        one.rule: max(beside_points(block, one), key=lambda ratio: ratio.high)
        for one in block.verdicts
        if one.standing == "better" and block.runners_up
    }


def beside_points(block: Block, one: Verdict) -> list[Interval]:
    """Return a rule's ratios to `detach` at each of its points that were run."""
    points = (block.base.ends, *block.runners_up.values())
    return [statistics.interval(statistics.ratio, [(one.ends, ends)]) for ends in points]


def control(block: Block) -> list[str]:
    """Return how `detach` at each of its next-best points compares with `detach` as tuned, by the rule for all others."""
    outcomes = []
    for ends in block.runners_up.values():
        pair = (ends, block.base.ends)
        ratio = statistics.interval(statistics.ratio, [pair])
        others = [*(one.uncorrected for one in block.fixed), *[1.0] * (block.comparisons - len(block.fixed))]
        p = holm([statistics.p_of(pair), *others])[0]
        outcomes.append(outcome(standing(ratio.middle, float(statistics.improvement([pair])), p), ratio))
    return outcomes


def outcomes_of(block: Block, pairs: Sequence[Pair]) -> list[str]:
    """Return how the comparisons fixed beforehand would end with other figures: a pair for each of `block.fixed`."""
    values = [*map(statistics.p_of, pairs), *[1.0] * (block.comparisons - len(pairs))]
    found = []
    for pair, p in zip(pairs, holm(values), strict=False):
        ratio = statistics.interval(statistics.ratio, [pair])
        found.append(outcome(standing(ratio.middle, float(statistics.improvement([pair])), p), ratio))
    return found


def outcome(standing: str, ratio: Interval | None) -> str:
    """Return what is not `better` or `worse` as `equal`, where the ratio's interval lies within 10 % of 1, or as `open`."""
    if standing != "unclear":
        return standing
    return "equal" if ratio and ratio.low >= 1 - SAME and ratio.high <= 1 / (1 - SAME) else "open"


def over_workloads(ratios: Sequence[float]) -> Interval | None:
    """Return the geometric mean of ratios with Student's interval of its logarithm; None for fewer than two."""
    if len(ratios) < 2:
        return None
    logs = of_mean([math.log(one) for one in ratios])
    return Interval(math.exp(logs.low), math.exp(logs.middle), math.exp(logs.high))


def ahead_at_equal_time(found: Sequence[Block], division: str) -> dict[str, list[str]]:
    """Return which rules are better than `detach` at equal time too, each with the workloads on which it is.

    Those that are no better than `detach` at one of its next-best points are left out, and so are those not compared with it.
    """
    ahead: dict[str, list[str]] = defaultdict(list)
    for block in (block for block in found if block.division == division and block.tells):
        beside = beside_next_best(block)
        for one in block.verdicts:
            if one.rule in beside and beside[one.rule].high < 1 and one.at_equal_time == "better":
                ahead[one.rule].append(block.workload.name)
    return ahead


def side(ratio: Interval | None) -> str:
    """Return `better` or `worse` where the interval of a ratio to `detach` lies on one side of 1; else `unclear`."""
    if ratio is None:
        return "unclear"
    return "better" if ratio.high < 1 else "worse" if ratio.low > 1 else "unclear"


def standing(ratio: float, improvement: float, p: float) -> str:
    """Return `better` or `worse` where means, pairs and the test agree; else `unclear`."""
    if p < ALPHA and ratio < 1 and improvement > 0.5:
        return "better"
    return "worse" if p < ALPHA and ratio > 1 and improvement < 0.5 else "unclear"


def two_digits(value: float) -> str:
    """Return a ratio as text with two decimals."""
    return "∞" if value > 1e6 else f"{value:.2f}"
