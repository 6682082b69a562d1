"""Runs that check the bench itself: longer budgets, the next-best points of `detach`, and the choice by more seeds."""

import itertools
from collections.abc import Iterator

from benching.results import CHOICE_SEEDS, Line
from benching.rules import BASE, RULES, TUNING_SEED
from benching.schedule import Plan

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
        for chosen in tuned[1 : NEXT_BEST + 1]:
            yield from plan.runs("runner-up", workload, division, RULES[BASE], chosen.point, range(plan.seeds))


def chosen_again(plan: Plan) -> Iterator[Line]:
    """Yield the missing runs of the second version of the choice, for every rule that is tuned.

    First come other values of the rule's own coefficients at the best rates that it has found, then the best points of all
    with further seeds, and then, where another point is chosen, its test runs.
    """
    for workload, division, rule in plan.arms():
        arm, numbers = plan.results.arms[workload.key, division, rule.name], plan.counted(workload, division)
        first = arm.chosen(numbers)
        if first is None:
            continue
        missing = [
            line for number in rule.crossed(first.point, division) for line in plan.tuning_run(workload, division, rule, number)
        ]
        seeds = range(rule.tuning_seed + 1, rule.tuning_seed + 1 + CHOICE_SEEDS)
        if not missing:
            finalists = arm.finalists(numbers)
            missing = [line for one in finalists for line in plan.runs("choice", workload, division, rule, one.point, seeds)]
        chosen = arm.chosen_again(numbers)
        if not missing and chosen:
            missing = [*plan.runs("test", workload, division, rule, chosen.point, range(plan.seeds))]
        yield from missing
