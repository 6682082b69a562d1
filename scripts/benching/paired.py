"""A paired trial of the momentum: every momentum meets every rule at the same rates and seeds, as docs/bench.md says."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from benching.results import Line
from benching.rules import RULES, Rule
from benching.schedule import Plan
from benching.space import DIVISIONS, Point
from benching.workloads import WORKLOADS, Workload

MOMENTUMS = {"adam": ("0.0", "0.5", "0.9"), "sgd": ("-0.3", "0.0", "0.3")}
"""The momentums that are compared, by optimiser; with Adam they are β₁."""
TRIED = ("detach", "joint", "extragradient")
"""The rules: alternating, simultaneous, and simultaneous with a look ahead."""
BLOCKS = {
    "ring_nonsaturating": ("adam", "sgd"),
    "ring_hinge": ("adam", "sgd"),
    "grid_nonsaturating": ("adam", "sgd"),
    "digits_nonsaturating": ("adam",),
    "edges_l1_10": ("adam",),
}
"""The workloads, and with which optimisers they are run: those that decide first, the cheapest of them before the others."""
POINTS = tuple(range(10))
"""The points of the bench's space that give the rates of D and G."""
FEWER_POINTS = {"digits_nonsaturating": (2, 3, 5, 7, 9)}
"""On the digits, where a run takes half a minute: five of the six with a rate of D below 0.01, from 0.00017 to 0.0054."""
SEEDS = 10


@dataclass(frozen=True)
class WithMomentum(Rule):
    """A rule with a fixed momentum and the default of its own coefficients.

    Args:
        name, overrides, coefficients, draw: As for `Rule`.
        momentum: The momentum, as typed.
    """

    momentum: str = "0.0"

    def at(self, number: int, division: str, *, extended: bool = False) -> Point:
        """Return the point with the rates of the bench's point of this number, and with this momentum."""
        rates = super().at(number, division, extended=extended)
        return replace(rates, settings=(*rates.settings[:2], DIVISIONS[division].as_typed.format(self.momentum)))


def named(rule: str, momentum: str) -> str:
    """Return what a rule with a momentum is called in the results."""
    return f"{rule} {momentum}"


def rules() -> list[WithMomentum]:
    """Return every rule with every momentum."""
    momentums = sorted({*itertools.chain(*MOMENTUMS.values())}, key=float)
    return [
        WithMomentum(named(rule, momentum), RULES[rule].overrides, momentum=momentum)
        for rule, momentum in itertools.product(TRIED, momentums)
    ]


def workloads() -> list[Workload]:
    """Return the workloads in the order in which they are run."""
    return [WORKLOADS[name] for name in BLOCKS]


def runs(workload: Workload) -> Iterator[Line]:
    """Yield the runs on a workload, all of one seed before those of the next, so that a part of them is balanced."""
    points = FEWER_POINTS.get(workload.name, POINTS)
    for seed, division in itertools.product(range(SEEDS), BLOCKS[workload.name]):
        for rule, momentum, point in itertools.product(TRIED, MOMENTUMS[division], points):
            yield Line("test", workload.key, division=division, rule=named(rule, momentum), point=point, seed=seed)


def missing(hours: float) -> Callable[[Plan], Iterator[Line]]:
    """Return what yields the missing runs as long as all runs together have taken less than so many core-hours of training."""

    def wanted(plan: Plan) -> Iterator[Line]:
        if spent(plan.results.lines) < hours:  # summed once, as `schedule.run` asks anew after each run
            planned = itertools.chain.from_iterable(map(runs, plan.workloads))
            yield from (line for line in planned if line not in plan.results)

    return wanted


def spent(lines: Sequence[Line]) -> float:
    """Return the core-hours of training of all lines."""
    return sum(line.cpu_s for line in lines) / 3600
