"""Was `detach` tuned luckily? Its next-best points, run on the test seeds as well."""

import itertools
from collections.abc import Iterator

from benching.results import Line, Results
from benching.rules import BASE
from benching.schedule import Plan

COUNT = 2
"""How many points after the chosen one are run."""


def wanted(plan: Plan, results: Results) -> Iterator[Line]:
    """Yield the missing runs of `detach` wherever it is tuned."""
    there = {line.identity for line in results.of_part("runner-up")}
    for workload, division in itertools.product(plan.workloads, plan.divisions):
        tuned = results.arms[workload.key, division, BASE].ranked(results.numbers(workload.key, division))
        for number, seed in itertools.product([line.point for line in tuned[1 : COUNT + 1]], range(plan.seeds)):
            line = Line("runner-up", workload.key, division=division, rule=BASE, point=number, seed=seed)
            if line.identity not in there:
                yield line


def of_block(results: Results, workload: str, division: str) -> dict[int, dict[int, Line]]:
    """Return the runs in a block by point and seed."""
    found: dict[int, dict[int, Line]] = {}
    for line in results.of_part("runner-up"):
        if (line.workload, line.division) == (workload, division):
            found.setdefault(line.point, {})[line.seed] = line
    return found
