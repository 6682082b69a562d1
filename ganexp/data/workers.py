"""Worker processes that read images during training."""

import multiprocessing
import os
import signal
import sys
import threading
from typing import Any

import torch
from torch.utils.data import DataLoader

STOPS = {getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)}


def loader(data: Any, workers: int, generator: torch.Generator, **settings: Any) -> DataLoader[Any]:
    """Return torch's DataLoader over a map-style dataset, with `workers` processes.

    The generator seeds the processes: without it, a DataLoader would draw that seed from torch's global stream, and so
    change every later dropout.
    """
    context = "fork" if workers and sys.platform == "linux" else None  # a joblib worker's default cannot start others
    start = _attach_to_parent if hasattr(signal, "sigtimedwait") else None
    return DataLoader(
        data, num_workers=workers, generator=generator, multiprocessing_context=context, worker_init_fn=start, **settings
    )


def _attach_to_parent(worker_id: int) -> None:
    """End this process within a second of its parent's end, and ignore signals that are meant for the parent.

    A signal to a whole process group or job asks the run to finish its iteration and to write a checkpoint, for which it
    may still need batches. Torch's own worker looks for its parent every five seconds, and not while it hands over a batch.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # for this thread and those that it starts
    threading.Thread(target=_watch, args=(parent.pid,), daemon=True).start()


def _watch(parent: int | None) -> None:
    while os.getppid() == parent:
        received = signal.sigtimedwait(STOPS, 1)
        if received is not None and received.si_pid == parent:
            break  # this is how torch ends a worker that hangs
    os._exit(0)
