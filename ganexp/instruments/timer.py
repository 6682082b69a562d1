"""Timing of the phases of an iteration, without synchronising with the device."""

import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

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

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time what happens inside. Phases of different names may be nested, and then overlap."""
        return nullcontext() if name in self._frozen else self._timed(name)

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

    def _add(self, name: str, ms: float) -> None:
        self._total_ms[name] += ms
        self._iterations += name == "iteration"

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._add(name, 1000 * (time.perf_counter() - start))

    def _settle(self) -> None:
        """Wait for the device, if it does the timing."""


class CudaTimer(Timer):
    """Records a pair of CUDA events per phase, and reads them when asked, so that nothing waits in between."""

    def __init__(self) -> None:
        super().__init__()
        self._events: deque[tuple[str, torch.cuda.Event, torch.cuda.Event]] = deque()

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        try:
            yield
        finally:
            end.record()
            self._events.append((name, start, end))
            if len(self._events) > 1000:  # fold what the device has finished, so that rare rows cost no memory
                self._fold()

    def _settle(self) -> None:
        torch.cuda.synchronize()
        self._fold()

    def _fold(self) -> None:
        while self._events and self._events[0][2].query():
            name, start, end = self._events.popleft()
            self._add(name, start.elapsed_time(end))


def timer_for(device: torch.device) -> Timer:
    """Return the timer that is right for a device."""
    return CudaTimer() if device.type == "cuda" else Timer()
