"""Timing of the phases of an iteration, without synchronising with the device."""

import time
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


class Timer:
    """Adds up the milliseconds that the host spends in phases, some of which lie within an `iteration`.

    This is correct for synchronous computation, on a CPU. The phases within a replayed iteration cannot be timed: each is
    assumed to have the same share of the iteration's time as when it was last timed.
    """

    def __init__(self) -> None:
        self._phases: dict[str, Phase] = {}
        self._shares: dict[str, float] = {}
        self._frozen: tuple[str, ...] = ()

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time the code inside. Phases of different names may be nested, and then overlap."""
        if name in self._frozen:
            return nullcontext()
        if name not in self._phases:
            self._phases[name] = self._new_phase()
        return self._phases[name]

    def read_ms(self) -> dict[str, float]:
        """Return the mean milliseconds of an iteration and of its phases since the last call, and reset them."""
        self._settle()
        read = {name: phase.read() for name, phase in self._phases.items() if phase.times}
        iterations = max(1, read.get("iteration", (0.0, 0))[1])
        means = {name: total / iterations for name, (total, _) in read.items()}
        if "iteration" in means and not self._frozen:
            self._shares = {name: ms / means["iteration"] for name, ms in means.items()}
        return means | {name: self._shares.get(name, 0.0) * means.get("iteration", 0.0) for name in self._frozen}

    def freeze(self, *names: str) -> None:
        """Estimate these phases, from now on, by their share of an iteration when it was last timed."""
        if names != self._frozen:
            self.read_ms()
            self._frozen = names

    def restart(self) -> None:
        """Discard all times, and time every phase again."""
        self.read_ms()
        self._frozen = ()

    def _new_phase(self) -> "Phase":
        return Phase()

    def _settle(self) -> None:
        """Wait for the device if it records the times."""


class Phase:
    """The time of one phase by the host's clock; it may be entered repeatedly, also within itself."""

    def __init__(self) -> None:
        self.total_ms = 0.0
        self.times = 0
        self._begun: list[Any] = []  # the starts of open entries, the innermost last

    def __enter__(self) -> None:
        self._begun.append(time.perf_counter())

    def __exit__(self, *_: object) -> None:
        self.total_ms += 1000 * (time.perf_counter() - self._begun.pop())
        self.times += 1

    def read(self) -> tuple[float, int]:
        """Return the milliseconds since the last call, and the number of completed entries."""
        read = self.total_ms, self.times
        self.total_ms, self.times = 0.0, 0
        return read


class CudaTimer(Timer):
    """Records a pair of CUDA events per phase, and reads them later, so that nothing waits in between."""

    def _new_phase(self) -> "Phase":
        return CudaPhase()

    def _settle(self) -> None:
        torch.cuda.synchronize()


class CudaPhase(Phase):
    """A phase by the device's clock."""

    def __init__(self) -> None:
        super().__init__()
        self._events: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque()
        self._free: list[torch.cuda.Event] = []  # reused, since creating one takes longer than recording it

    def __enter__(self) -> None:
        stream = torch.cuda.current_stream()  # looked up once for both events, which takes longer than recording them
        self._begun.append((stream, self._recorded(stream)))

    def __exit__(self, *_: object) -> None:
        stream, start = self._begun.pop()
        self._events.append((start, self._recorded(stream)))
        self.times += 1
        if len(self._events) > 250:  # fold what the device has finished, so that rare rows cost no memory
            self._fold()

    def read(self) -> tuple[float, int]:
        """Return the same for the entries that the device has finished."""
        self._fold()
        return super().read()

    def _recorded(self, stream: torch.cuda.Stream) -> torch.cuda.Event:
        event = self._free.pop() if self._free else torch.cuda.Event(enable_timing=True)
        event.record(stream)
        return event

    def _fold(self) -> None:
        while self._events and self._events[0][1].query():
            start, end = self._events.popleft()
            self.total_ms += start.elapsed_time(end)
            self._free += [start, end]


def timer_for(device: torch.device) -> Timer:
    """Return the timer that is right for a device."""
    return CudaTimer() if device.type == "cuda" else Timer()
