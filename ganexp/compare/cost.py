"""The cost of an iteration: counted operations and memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from ganexp.compare.racing import Contender, Times, race
from ganexp.instruments.counting import LiveActivations, operations, weights_of


class Cost(NamedTuple):
    """The cost of an iteration: its operations in Gflop, and the peak of the memory that it adds in MiB."""

    gflop: float
    peak_mib: float


@dataclass(kw_only=True)
class Measured(Times):
    """One contender's times from a race, and the cost of an iteration."""

    gflop: float
    peak_mib: float


def measured(
    contenders: Mapping[str, Contender],
    costs: Mapping[str, Cost],
    *,
    turns: int,
    iterations: int,
    device: torch.device,
    timed: Callable[[], object] = lambda: None,
) -> dict[str, Measured]:
    """Race contenders whose costs have been counted; `timed` is called after each time that is taken."""
    times = race(contenders, turns=turns, iterations=iterations, device=device, timed=timed)
    return {
        name: Measured(times[name].times_ms, times[name].phases_ms, gflop=own.gflop, peak_mib=own.peak_mib)
        for name, own in costs.items()
    }


def cost(contender: Contender, device: torch.device) -> Cost:
    """Count the cost of an iteration; memory is that of live activations on a CPU, and of all allocations on a GPU.

    On a GPU, it must be called before iterations are recorded, since operations in a replay cannot be counted.
    """
    contender.step()  # the first iteration may include checks that later ones skip
    return Cost(operations(contender.step) / 1e9, _peak_mib(contender, device))


def _peak_mib(contender: Contender, device: torch.device) -> float:
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)  # of all contenders
        torch.cuda.reset_peak_memory_stats(device)
        contender.step()
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    assert contender.gan is not None
    with LiveActivations(weights_of(contender.gan.generator, contender.gan.discriminator)) as activations:
        contender.step()
    return activations.peak / 2**20
