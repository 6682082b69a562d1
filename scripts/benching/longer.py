"""Are budgets long enough? `detach` at a few points of the space, over twice the budget."""

from collections.abc import Iterator

from benching.results import Line, Results
from benching.rules import BASE
from benching.schedule import TUNING_SEED, Plan

TRIED = (2, 5, 17)
"""Points at which `detach` did best on the first workloads; their rates are around 1e-3."""


def wanted(plan: Plan, results: Results) -> Iterator[Line]:
    """Yield the missing runs, with Adam, which are judged on the validation split."""
    there = {line.identity for line in results.of_part("longer")}
    for workload in plan.workloads:
        for number in TRIED:
            line = Line("longer", workload.key, division="adam", rule=BASE, point=number, seed=TUNING_SEED)
            if line.identity not in there:
                yield line
