"""Does the order of updates matter beside an L1 term? What the runs on the workloads with sources say so far."""

from dataclasses import dataclass

import numpy as np

from benching import statistics
from benching.results import Line, Results
from benching.rules import BASE
from benching.workloads import ORDER, WORKLOADS, Workload
from ganexp.compare.intervals import Interval

DIVISION = "adam"


@dataclass(frozen=True)
class Standing:
    """A rule on a workload with an L1 term.

    Args:
        workload, rule: Which.
        points: How many points of tuning it has had; all rules of a workload as many.
        failed: How many of these diverged, or ended no better than real data from half of the classes.
        ends: The last figure of each test seed; of each seed that all rules have.
        lost: How many of these seeds diverged or ended so.
        ratio: The ratio of interquartile means to `detach`; None for `detach` itself.
    """

    workload: Workload
    rule: str
    points: int
    failed: int
    ends: np.ndarray
    lost: int
    ratio: Interval | None


def standings(results: Results) -> list[Standing]:
    """Return what is known of every rule: all rules that were begun on a workload, by as many points and by the same seeds."""
    found = []
    for workload in WORKLOADS.values():
        arms = {rule: results.arms[workload.key, DIVISION, rule] for rule in ORDER}
        arms = {rule: arm for rule, arm in arms.items() if arm.test}
        bound = results.bound(workload.key)
        if not workload.of_order or BASE not in arms or bound is None:
            continue
        points = [number for number in range(100) if all(number in arm.tuning for arm in arms.values())]
        runs: dict[str, dict[int, Line]] = {}
        for rule, arm in arms.items():
            chosen = arm.chosen(points)
            runs[rule] = arm.seeds(chosen.point) if chosen else {}
        seeds = sorted(set.intersection(*(set(one) for one in runs.values())))
        if not seeds:
            continue
        ends = {rule: np.array([of[seed].end for seed in seeds]) for rule, of in runs.items()}
        for rule, arm in arms.items():
            lost = int((ends[rule] >= bound.figures[0]).sum())
            failed = sum(arm.tuning[number].end >= bound.figures[0] for number in points)
            ratio = None if rule == BASE else statistics.interval(statistics.ratio, [(ends[rule], ends[BASE])])
            found.append(Standing(workload, rule, len(points), failed, ends[rule], lost, ratio))
    return found
