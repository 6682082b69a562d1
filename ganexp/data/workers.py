"""Processes that read images beside training."""

import signal
import sys
from types import FrameType
from typing import Any

from torch.utils.data import DataLoader


def loader(data: Any, workers: int, **settings: Any) -> DataLoader[Any]:
    """Return torch's DataLoader over a map-style dataset, with so many processes."""
    context = "fork" if workers and sys.platform == "linux" else None  # a joblib worker's own cannot start others
    return DataLoader(
        data, num_workers=workers, multiprocessing_context=context, worker_init_fn=_leave_signals_to_the_run, **settings
    )


def _leave_signals_to_the_run(worker: int) -> None:
    """Survive a signal to the whole group of processes: the run finishes its iteration, and then ends its workers."""
    for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _forgive_once)


def _forgive_once(number: int, frame: FrameType | None) -> None:
    """Let one SIGTERM pass; the next may be the run's own, which has waited for this process in vain."""
    signal.signal(number, signal.SIG_DFL)
