"""Are budgets long enough? `detach` at a few points of the space, over twice the budget."""

from benching import running
from benching.results import Line, Results
from benching.rules import BASE, RULES
from benching.schedule import TUNING_SEED, Plan, ended, machine_line, write_bound
from benching.space import DIVISIONS, point

TRIED = (2, 5, 17)
"""Points at which `detach` did best on the first workloads; their rates are around 1e-3."""
BUDGETS = 2
DIVISION = DIVISIONS["adam"]


def measure(plan: Plan, results: Results) -> None:
    """Make the missing runs, judged on the validation split, and write each down as it ends."""
    there = {line.identity for line in results.lines}
    wanted = [
        (workload, Line("longer", workload.key, division=DIVISION.name, rule=BASE, point=number, seed=TUNING_SEED))
        for workload in plan.workloads
        for number in TRIED
    ]
    missing = [(workload, line) for workload, line in wanted if line.identity not in there]
    if missing:
        results.append(machine_line())
    for workload, line in missing:
        write_bound(workload, plan, results)
        overrides, settings = (*DIVISION.overrides, *RULES[BASE].overrides), point(line.point, DIVISION, ()).settings
        iterations = BUDGETS * plan.cost(workload, DIVISION.name, RULES[BASE])[1]
        task = running.Task(workload.name, overrides, settings, TUNING_SEED, "tuning", iterations, plan.further)
        results.append(ended(line, running.run(task)))
