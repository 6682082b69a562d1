"""Does the order of updates matter beside an L1 term? What the runs on the workloads with sources say."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benching import statistics
from benching.results import Arm, Line, Results
from benching.rules import BASE
from benching.workloads import ORDER, WORKLOADS, Workload
from ganexp.compare.intervals import Interval
from ganexp.compare.ranking import ALPHA, holm

DIVISION = "adam"


@dataclass(frozen=True)
class Standing:
    """A rule on a workload with an L1 term, compared with `detach` by the points and the seeds that both have.

    Args:
        workload, rule: Which.
        points: How many points of tuning these are.
        failed: How many of the rule's points diverged, or ended no better than real data from half of the classes.
        ends: The last figure of each test seed at the best of these points.
        lost: How many of these seeds diverged or ended so.
        ratio: The ratio of interquartile means to `detach`; None for `detach` itself.
        p: Of Wilcoxon's test, uncorrected; 1 for `detach` itself.
        time: Core-seconds of these test runs over those of `detach`, by the medians.
    """

    workload: Workload
    rule: str
    points: int
    failed: int
    ends: np.ndarray
    lost: int
    ratio: Interval | None
    p: float
    time: float

    @property
    def middle(self) -> float:
        """The interquartile mean of its ends."""
        return float(statistics.interquartile_mean(self.ends))


def summary(results: Results) -> dict[str, Any] | None:
    """Return the standings by workload and rule, and what Holm's correction leaves of them; None if there are none.

    They are those of the second version of the choice once all rules have it; how it differs from the first is said too.
    """
    first, second = standings(results), standings(results, again=True)
    by_second = {(one.workload, one.rule) for one in first} == {(one.workload, one.rule) for one in second}
    found = second if by_second else first
    if not found:
        return None
    by_workload: defaultdict[Workload, dict[str, Standing]] = defaultdict(dict)
    points: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in found:
        by_workload[one.workload][one.rule] = one
        points[one.rule] += Counter(failed=one.failed, of=one.points)
    beyond, before = (_beyond(standing) for standing in (found, first))
    named = {(one.workload, one.rule) for one in beyond}, {(one.workload, one.rule) for one in before}
    return {
        "workloads": by_workload,
        "rules": points,
        "by_second": by_second,
        "compared": sum(one.ratio is not None for one in found),
        "times": {rule: np.median([one.time for one in found if one.rule == rule]) for rule in points},
        "beyond": beyond,
        "taken_back": [one for one in before if (one.workload, one.rule) not in named[0]],
        "added": [one for one in beyond if (one.workload, one.rule) not in named[1]],
        "lost": sum(one.lost for one in found),
    }


def _beyond(found: Sequence[Standing]) -> list[Standing]:
    """Return the comparisons whose p is below 5 % after Holm's correction over all of them."""
    compared = [one for one in found if one.ratio]
    return [one for one, p in zip(compared, holm([one.p for one in compared]), strict=True) if p < ALPHA]


def standings(results: Results, *, again: bool = False) -> list[Standing]:
    """Return what is known of every rule that was begun on these workloads.

    Args:
        results: All runs.
        again: Whether points are those of the second version of the choice; rules without it are left out then.
    """
    found = []
    for workload in WORKLOADS.values():
        arms = {rule: results.arms[workload.key, DIVISION, rule] for rule in ORDER}
        arms = {rule: arm for rule, arm in arms.items() if arm.test}
        bound = results.bound(workload.key)
        if not workload.of_order or BASE not in arms or bound is None:
            continue
        for rule, arm in arms.items():
            points = [number for number in range(100) if number in arm.tuning and number in arms[BASE].tuning]
            runs = [_runs(one, points, again) for one in (arm, arms[BASE])]
            seeds = sorted(set(runs[0]) & set(runs[1]))
            if not seeds:
                continue
            ends, beside = (np.array([of[seed].end for seed in seeds]) for of in runs)
            lost = int((ends >= bound.figures[0]).sum())
            failed = sum(arm.tuning[number].end >= bound.figures[0] for number in points)
            ratio = None if rule == BASE else statistics.interval(statistics.ratio, [(ends, beside)])
            p = statistics.p_of((ends, beside))
            seconds, of_base = (np.median([of[seed].cpu_s for seed in seeds]) for of in runs)
            found.append(Standing(workload, rule, len(points), failed, ends, lost, ratio, p, float(seconds / of_base)))
    return found


def _runs(arm: Arm, points: Sequence[int], again: bool) -> Mapping[int, Line]:
    """Return the test runs at the point that is chosen among some, by seed."""
    chosen = arm.chosen_again(points) if again else arm.chosen(points)
    return arm.seeds(chosen.point) if chosen else {}
