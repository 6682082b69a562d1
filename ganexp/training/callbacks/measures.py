"""Measurements: losses, scores, gradient norms, timings and memory."""

import sys

import psutil
import torch

from ganexp.logging import Row
from ganexp.training.run import Callback, Run

PHASES = ("iteration", "data", "d", "g")


class Measures(Callback):
    """Reads the GAN's meter and timer; the host waits for the device."""

    def __init__(self, every: int = 50) -> None:
        self.every = every
        self._iteration, self._images = 0, 0

    def begin(self, run: Run) -> None:
        self._iteration, self._images = run.iteration, run.reals.images

    def __call__(self, run: Run) -> Row:
        values: Row = {**run.gan.meter.read(run.gan.measurements())}
        mean_ms = run.gan.timer.read_ms()
        images = (run.reals.images - self._images) / (run.iteration - self._iteration)
        self.begin(run)
        schedule = run.step.schedule
        rates: Row = {f"lr/{network}": rate for network, rate in schedule.rates().items()}
        moving: Row = {f"moving/{name}": value for name, value in schedule.coefficients().items()}
        times: Row = {f"time/{phase}_ms": mean_ms.get(phase, 0.0) for phase in PHASES}
        speed: Row = {"speed/images_per_s": 1000 * images / mean_ms["iteration"]}
        return values | rates | moving | times | speed | {"memory/peak_mib": peak_memory_mib(run.gan.prior.device)}


def peak_memory_mib(device: torch.device) -> float:
    """Return the peak of the memory that torch has allocated on a GPU, or of the process's resident memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if sys.platform == "win32":
        return psutil.Process().memory_info().peak_wset / 2**20
    import resource  # not available on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
