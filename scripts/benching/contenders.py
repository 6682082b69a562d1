"""Controls and contenders that were added when the results of the others were known: `detach` tuned twice, and with R1."""

from collections.abc import Sequence

import numpy as np

from benching import statistics
from benching.rules import ADDED
from benching.verdicts import Block, Verdict, beside_points, side
from ganexp.compare.intervals import Interval

AGAIN, WITH_R1 = "detach_again", "detach_r1"
REGULARISED = ("consensus", "jare", "runge_kutta")
"""The rules that add a gradient penalty, which should be compared with the plain penalty R1."""


def outcomes(found: Sequence[Block], rule: str) -> list[tuple[Block, str]]:
    """Return how an added rule compares with `detach`, in the blocks where it is complete."""
    return [(block, one.outcome) for block in found for one in block.added if one.rule == rule]


def apart(found: Sequence[Block], rule: str) -> int:
    """Return in how many blocks the interval of an added rule's ratio to `detach` lies on one side of 1."""
    return sum(side(one.ratio) != "unclear" for block in found for one in block.added if one.rule == rule)


def standing_beside_all(found: Sequence[Block], rule: str) -> int:
    """Return in how many blocks an added rule is better than `detach`, and its ratio to each point of `detach` below 1."""
    return sum(
        one.standing == "better" and max(ratio.high for ratio in beside_points(block, one)) < 1
        for block in found
        for one in block.added
        if one.rule == rule
    )


def rows(found: Sequence[Block]) -> list[tuple[Block, Verdict]]:
    """Return the verdicts on the added rules with their blocks, one rule after the other."""
    return [(block, one) for rule in ADDED for block in found for one in block.added if one.rule == rule and one.ratio]


def better_than_r1(found: Sequence[Block]) -> dict[str, list[str]]:
    """Return the rules whose ratio to `detach` with R1 has an interval below 1, by block."""
    beside: dict[str, list[str]] = {}
    for block in found:
        for base in (one for one in block.added if one.rule == WITH_R1):
            ratios = {one.rule: statistics.interval(statistics.ratio, [(one.ends, base.ends)]) for one in block.verdicts}
            beside[block.name] = [rule for rule, ratio in ratios.items() if ratio.high < 1]
    return beside


def beside_r1(found: Sequence[Block]) -> dict[str, list[tuple[str, Interval]]]:
    """Return the ratios of the rules that add a penalty to `detach` with R1, by block."""
    beside: dict[str, list[tuple[str, Interval]]] = {}
    for block in found:
        ends: dict[str, np.ndarray] = {one.rule: one.ends for one in (*block.verdicts, *block.added)}
        for rule in (rule for rule in REGULARISED if rule in ends and WITH_R1 in ends):
            ratio = statistics.interval(statistics.ratio, [(ends[rule], ends[WITH_R1])])
            beside.setdefault(rule, []).append((block.name, ratio))
    return beside
