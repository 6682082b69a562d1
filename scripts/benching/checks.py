"""Runs that check the bench itself: longer budgets, and the next-best points of `detach`."""

import itertools
from collections.abc import Iterator

from benching.results import Line
from benching.rules import BASE
from benching.schedule import TUNING_SEED, Plan

TRIED = (2, 5, 17)
"""Points that are run over twice the budget: `detach` did best there on the first workloads, at rates around 1e-3."""
NEXT_BEST = 2
"""At how many points after the chosen one `detach` is run on the test seeds as well."""


def longer(plan: Plan) -> Iterator[Line]:
    """Yield the missing runs over twice the budget, with Adam, which are judged on the validation split."""
    for workload, number in itertools.product(plan.workloads, TRIED):
        line = Line("longer", workload.key, division="adam", rule=BASE, point=number, seed=TUNING_SEED)
        if line not in plan.results:
            yield line


def runners_up(plan: Plan) -> Iterator[Line]:
    """Yield the missing runs of `detach` at its next-best points, wherever it is tuned."""
    for workload, division in itertools.product(plan.workloads, plan.divisions):
        numbers = plan.results.numbers(workload.key, division)
        tuned = plan.results.arms[workload.key, division, BASE].ranked(numbers)
        for chosen, seed in itertools.product(tuned[1 : NEXT_BEST + 1], range(plan.seeds)):
            line = Line("runner-up", workload.key, division=division, rule=BASE, point=chosen.point, seed=seed)
            if line not in plan.results:
                yield line
