"""Timing of the phases of an iteration, without synchronising with the device."""

import time
from collections import defaultdict, deque
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


class Timer:
    """Adds up the milliseconds that the host spends in phases, some of which lie within an `iteration`.

    That is right where computation is synchronous, on a CPU. Where iterations are replayed, the phases within cannot be timed:
    each is taken to have the same share of the iteration's time as in one that was timed.
    """

    def __init__(self) -> None:
        self._total_ms: dict[str, float] = defaultdict(float)
        self._iterations = 0
        self._shares: dict[str, float] = {}
        self._frozen: tuple[str, ...] = ()
        self._begun: list[Any] = []  # the beginnings of the phases that have not ended, nested ones last
        self._phases: dict[str, AbstractContextManager[None]] = {}

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time what happens inside. Phases of different names may be nested, and then overlap."""
        if name in self._frozen:
            return nullcontext()
        if name not in self._phases:
            self._phases[name] = Phase(self, name)
        return self._phases[name]

    def read_ms(self) -> dict[str, float]:
        """Return the mean milliseconds of an iteration and of the phases in it since the last call, and start again."""
        self._settle()
        means = {name: total / max(1, self._iterations) for name, total in self._total_ms.items()}
        self._total_ms.clear()
        self._iterations = 0
        if "iteration" in means and not self._frozen:
            self._shares = {name: ms / means["iteration"] for name, ms in means.items()}
        return means | {name: self._shares.get(name, 0.0) * means.get("iteration", 0.0) for name in self._frozen}

    def freeze(self, *names: str) -> None:
        """Estimate these phases, from now on, by their share of an iteration when it was last timed."""
        if names != self._frozen:
            self.read_ms()
            self._frozen = names

    def restart(self) -> None:
        """Discard what was timed so far, and time every phase again."""
        self.read_ms()
        self._frozen = ()

    def begin(self, name: str) -> None:
        """Note that a phase begins."""
        self._begun.append(time.perf_counter())

    def end(self, name: str) -> None:
        """Note that the phase that began last ends."""
        self._add(name, 1000 * (time.perf_counter() - self._begun.pop()))

    def _add(self, name: str, ms: float) -> None:
        self._total_ms[name] += ms
        self._iterations += name == "iteration"

    def _settle(self) -> None:
        """Wait for the device, if it does the timing."""


class Phase(AbstractContextManager[None]):
    """What a timer counts as one phase; it may be entered again, within itself too."""

    def __init__(self, timer: Timer, name: str) -> None:
        self.timer, self.name = timer, name

    def __enter__(self) -> None:
        self.timer.begin(self.name)

    def __exit__(self, *_: object) -> None:
        self.timer.end(self.name)


class CudaTimer(Timer):
    """Records a pair of CUDA events per phase, and reads them when asked, so that nothing waits in between."""

    def __init__(self) -> None:
        super().__init__()
        self._events: deque[tuple[str, torch.cuda.Event, torch.cuda.Event]] = deque()
        self._free: list[torch.cuda.Event] = []  # that have been read, since making one takes longer than recording it

    def begin(self, name: str) -> None:
        """Record an event where a phase begins."""
        self._begun.append(self._recorded())

    def end(self, name: str) -> None:
        """Record an event where it ends."""
        self._events.append((name, self._begun.pop(), self._recorded()))
        if len(self._events) > 1000:  # fold what the device has finished, so that rare rows cost no memory
            self._fold()

    def _recorded(self) -> torch.cuda.Event:
        event = self._free.pop() if self._free else torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _settle(self) -> None:
        torch.cuda.synchronize()
        self._fold()

    def _fold(self) -> None:
        while self._events and self._events[0][2].query():
            name, start, end = self._events.popleft()
            self._add(name, start.elapsed_time(end))
            self._free += [start, end]


def timer_for(device: torch.device) -> Timer:
    """Return the timer that is right for a device."""
    return CudaTimer() if device.type == "cuda" else Timer()
