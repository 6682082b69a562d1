"""What is known of the tuning itself: points at an edge, what the extension moved, next-best points, and longer budgets."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benching import statistics
from benching.figures import WITHIN, best_at_the_budget, runs_over_two_budgets
from benching.results import Results
from benching.rules import KNOWN, Rule
from benching.space import FURTHER, POINTS
from benching.verdicts import Block, beside_next_best


def edges(block: Block) -> dict[str, tuple[str, ...]]:
    """Return which settings of the chosen points lie at an end of their range, by rule."""
    return {one.rule: _edges(block, one.rule, one.chosen.point) for one in (*block.verdicts, *block.added)}


def edge_share(found: Sequence[Block]) -> float:
    """Return the share of all points that lie at an end of a range, over the rules of all blocks."""
    at_edges = [
        bool(_edges(block, one.rule, number))
        for block in found
        for one in block.verdicts
        for number in range(len(one.searched))
    ]
    return sum(at_edges) / max(1, len(at_edges))


def _edges(block: Block, rule: str, number: int) -> tuple[str, ...]:
    return KNOWN.get(rule, Rule(rule, ())).at(number, block.division, extended=block.extended).edges


def moved(results: Results, found: Sequence[Block]) -> dict[str, int]:
    """Return how many choices the extension moved, and for how many of these the test split had been looked at before."""
    arms = [
        results.arms[block.workload.key, block.division, one.rule]
        for block in found
        if block.extended
        for one in block.verdicts
    ]
    before = [(arm, arm.chosen(range(POINTS))) for arm in arms]
    moved = [(arm, line) for arm, line in before if line != arm.chosen(range(POINTS + FURTHER))]
    tested = sum(line is not None and bool(arm.seeds(line.point)) for arm, line in moved)
    return {"of": len(arms), "moved": len(moved), "again": tested}


def luck(found: Sequence[Block]) -> list[dict[str, Any]]:
    """Return what `detach` reaches at its next-best points, and which rules are better than at all of them, by block."""
    rows = []
    for block in (block for block in found if block.runners_up):
        figures = {number: float(statistics.interquartile_mean(ends)) for number, ends in block.runners_up.items()}
        missed = 100 * (1 - min(figures.values()) / block.base.figure.middle)
        rows.append({"block": block, "figures": figures, "missed": missed, "beside": beside_next_best(block)})
    return rows


def budgets(results: Results, found: Sequence[Block]) -> list[dict[str, Any]]:
    """Return what twice the budget brings, and how much `detach` still gains at the end of the budget, by workload."""
    rows = []
    for workload, runs in runs_over_two_budgets(results).items():
        if found and workload not in [block.workload for block in found]:
            continue
        of = {block.division: block.base.curve[-2:] for block in found if block.workload == workload}
        change = {division: curve[1] / curve[0] - 1 if np.isfinite(curve).all() else math.nan for division, curve in of.items()}
        best = best_at_the_budget(runs)
        at_budget, after = best.figures[WITHIN - 1], best.figures[WITHIN:]
        rows.append({"workload": workload, "best": best, "at_budget": at_budget, "after": after, "change": change})
    return rows
