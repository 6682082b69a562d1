"""Strategies raced against each other, with results cached for all the claims about the same race."""

import functools

from ganexp.cli.commands.compare.cases import REDUNDANT, settings_of, trainer_of
from ganexp.compare.cost import Measured, cost, measured
from ganexp.compare.racing import Contender


@functools.cache
def raced(names: tuple[str, ...], overrides: tuple[str, ...], turns: int, iterations: int) -> dict[str, Measured]:
    """Race strategies, each given by its name, followed by `, redundant` for textbook backward passes."""
    trainers = {name: trainer_of(*overrides, *settings_of(name)) for name in names}
    contenders = {name: Contender.of(trainer) for name, trainer in trainers.items()}
    device = trainers[names[0]].gan.prior.device
    costs = {name: cost(contender, device) for name, contender in contenders.items()}
    return measured(contenders, costs, turns=turns, iterations=iterations, device=device)


def rows_of(names: tuple[str, ...], overrides: tuple[str, ...], turns: int, iterations: int) -> list[dict[str, object]]:
    """Return what was measured in a race, a row for each turn of each strategy."""
    settings = " ".join(overrides)
    return [
        {"settings": settings, "strategy": name, "iterations": iterations, "turn": turn, "ms": ms}
        | {"gflop": entry.gflop, "peak_mib": entry.peak_mib}
        for name, entry in raced(names, overrides, turns, iterations).items()
        for turn, ms in enumerate(entry.times_ms)
    ]


def case_of(name: str) -> tuple[str, str]:
    """Return a strategy's name without the suffix, and in words which gradients it computes."""
    return name.removesuffix(REDUNDANT), "redundant gradients" if name.endswith(REDUNDANT) else "own gradients"
