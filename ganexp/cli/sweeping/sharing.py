"""How jobs that run side by side share a machine: each has its threads, and a GPU to itself."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from omegaconf import DictConfig


@contextmanager
def share_of_the_machine(cfg: DictConfig, launcher: Mapping[str, Any]) -> Iterator[None]:
    """If jobs run beside each other on this machine, take a share of the threads and one of the GPUs.

    The number of threads that a job has chosen for itself ends with it.
    """
    before = torch.get_num_threads()
    try:
        with _share(cfg, launcher.get("n_jobs")):
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _share(cfg: DictConfig, workers: int | None) -> Iterator[None]:
    if workers is None:
        yield
        return
    cores = os.cpu_count() or 1
    torch.set_num_threads(max(1, cores // (workers if workers > 0 else cores)))
    if cfg.device != "auto" or not torch.cuda.is_available():
        yield
        return
    with reserved_gpu(torch.cuda.device_count(), Path.home() / ".cache" / "ganexp" / "gpus") as index:
        torch.cuda.set_device(index)  # which device=auto stands for; a job may go on on another one
        yield


@contextmanager
def reserved_gpu(count: int, folder: Path, *, poll_s: float = 0.2) -> Iterator[int]:
    """Reserve one of `count` GPUs for as long as the context lasts, waiting while all are reserved by others.

    A reservation is a locked file below `folder`, which the system unlocks if the process dies. It is made per job, not per
    worker process, so that it does not matter whether workers are reused.
    """
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        for index in range(count):
            lock = FileLock(folder / f"gpu{index}.lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            try:
                yield index
            finally:
                lock.release()
            return
        time.sleep(poll_s)
