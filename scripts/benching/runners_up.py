"""Was `detach` tuned luckily? Its next-best points, run on the test seeds as well."""

import itertools
from dataclasses import replace

from benching import running
from benching.results import Arm, Line, Results
from benching.rules import BASE, RULES
from benching.schedule import Plan, ended, machine_line
from benching.space import DIVISIONS, point

COUNT = 2
"""How many points after the chosen one are run."""


def measure(plan: Plan, results: Results) -> None:
    """Make the missing runs of `detach` wherever it is tuned, and write each down as it ends."""
    rule, there = RULES[BASE], {line.identity for line in results.lines}
    wanted = []
    for workload, division in itertools.product(plan.workloads, plan.divisions):
        arm = results.arms.get((workload.key, division, BASE), Arm())
        for tuned in arm.ranked(results.numbers(workload.key, division))[1 : COUNT + 1]:
            for seed in range(plan.seeds):
                line = replace(tuned, part="runner-up", seed=seed, state="", cpu_s=0.0, figures=(), said="")
                if line.identity not in there:
                    wanted.append((workload, line))
    if wanted:
        results.append(machine_line())
    for workload, line in wanted:
        optimiser = DIVISIONS[line.division]
        overrides, settings = (*optimiser.overrides, *rule.overrides), point(line.point, optimiser, ()).settings
        iterations = plan.cost(workload, line.division, rule)[1]
        task = running.Task(workload.name, overrides, settings, line.seed, "test", iterations, plan.further)
        results.append(ended(line, running.run(task)))


def of_block(results: Results, workload: str, division: str) -> dict[int, dict[int, Line]]:
    """Return the runs in a block by point and seed."""
    found: dict[int, dict[int, Line]] = {}
    for line in results.of_part("runner-up"):
        if (line.workload, line.division) == (workload, division):
            found.setdefault(line.point, {})[line.seed] = line
    return found
