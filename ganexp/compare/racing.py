"""Races: contenders are timed in turn, so that drift of the machine affects all of them equally."""

import functools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from ganexp.compare.intervals import Interval, of_ratio
from ganexp.gan import GAN
from ganexp.training import Trainer


@dataclass(frozen=True)
class Contender:
    """One training iteration that can be repeated.

    Args:
        step: Runs one iteration.
        gan: The GAN that it trains; needed only to time phases and to count costs.
    """

    step: Callable[[], object]
    gan: GAN | None = None

    @classmethod
    def of(cls, trainer: Trainer) -> "Contender":
        """Return a contender that runs a trainer's iterations."""
        return cls(functools.partial(trainer.step, trainer.reals), trainer.gan)

    def read_phases_ms(self) -> dict[str, float]:
        """Return the milliseconds per iteration of each phase that the GAN has timed since the last call."""
        return self.gan.timer.read_ms() if self.gan else {}


@dataclass
class Times:
    """Milliseconds per iteration of one contender, and of the phases in it, turn by turn."""

    times_ms: list[float] = field(default_factory=list)
    phases_ms: list[dict[str, float]] = field(default_factory=list)

    @property
    def median_ms(self) -> float:
        """The median over turns."""
        return statistics.median(self.times_ms)

    def over(self, other: "Times") -> Interval:
        """Return the ratio of these times to those of another contender of the same race."""
        return of_ratio(self.times_ms, other.times_ms)


def race(
    contenders: Mapping[str, Contender],
    *,
    turns: int,
    iterations: int,
    device: torch.device,
    timed: Callable[[], object] = lambda: None,
) -> dict[str, Times]:
    """Time all contenders in turn, `turns` times, each time starting with the next one; `timed` is called after each time."""
    for contender in contenders.values():
        for _ in range(2 if device.type == "cpu" else 6):  # on a GPU, these may include recording a CUDA graph
            contender.step()
        contender.read_phases_ms()
    times = {name: Times() for name in contenders}
    names = list(contenders)
    for turn in range(turns):
        first = turn % len(names)
        for name in [*names[first:], *names[:first]]:
            seconds = seconds_of(contenders[name].step, iterations, device)
            times[name].times_ms.append(1000 * seconds / iterations)
            times[name].phases_ms.append(contenders[name].read_phases_ms())
            timed()
    return times


def race_for(contenders: Mapping[str, Contender], *, turns: int, turn_s: float, device: torch.device) -> dict[str, Times]:
    """Race with as many iterations per turn as take about `turn_s` seconds."""
    for contender in contenders.values():
        for _ in range(6):  # kernels are chosen, compiled or recorded
            contender.step()
    each_s = statistics.mean(seconds_of(contender.step, 1, device) for contender in contenders.values())
    return race(contenders, turns=turns, iterations=max(1, round(turn_s / each_s)), device=device)


def seconds_of(step: Callable[[], object], times: int, device: torch.device) -> float:
    """Return the seconds of `times` calls, until the device has finished them."""
    synchronize(device)
    start = time.perf_counter()
    for _ in range(times):
        step()
    synchronize(device)
    return time.perf_counter() - start


def synchronize(device: torch.device) -> None:
    """Wait for the device, if it computes asynchronously."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
