"""Where the time of an iteration goes, by phase, without making the device wait."""

import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class HostTimer:
    """Adds up the seconds that the host spends in each phase: right where computation is synchronous, on a CPU."""

    def __init__(self) -> None:
        self._total_ms: dict[str, float] = defaultdict(float)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what happens inside. Phases of different names may be nested, and then overlap."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._total_ms[name] += 1000 * (time.perf_counter() - start)

    def read_ms(self) -> dict[str, float]:
        """Return the milliseconds per phase since the last call, and start again."""
        total = dict(self._total_ms)
        self._total_ms.clear()
        return total


class CudaTimer:
    """Records a pair of CUDA events per phase, and reads them when asked, so that nothing waits in between."""

    def __init__(self) -> None:
        self._events: deque[tuple[str, torch.cuda.Event, torch.cuda.Event]] = deque()
        self._total_ms: dict[str, float] = defaultdict(float)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what the device does for the kernels launched inside."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        try:
            yield
        finally:
            end.record()
            self._events.append((name, start, end))
            if len(self._events) > 1000:  # fold what the device has passed, so that rare rows cost no memory
                self._fold()

    def read_ms(self) -> dict[str, float]:
        """Return the milliseconds per phase since the last call, and start again; waits for the device."""
        torch.cuda.synchronize()
        self._fold()
        total = dict(self._total_ms)
        self._total_ms.clear()
        return total

    def _fold(self) -> None:
        while self._events and self._events[0][2].query():
            name, start, end = self._events.popleft()
            self._total_ms[name] += start.elapsed_time(end)


def timer_for(device: torch.device) -> HostTimer | CudaTimer:
    """Return the timer that is right for a device."""
    return CudaTimer() if device.type == "cuda" else HostTimer()


def peak_memory_mib(device: torch.device) -> float:
    """Return the peak of the memory that torch has allocated on a GPU, or of the process's resident memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    import resource  # not on Windows, where only the GPU's figure is to be had

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
