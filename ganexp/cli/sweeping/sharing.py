"""How parallel jobs share a machine: each has some of the threads, and a GPU or a share of one."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from omegaconf import DictConfig, open_dict

from ganexp.facts import UserError

PARTS = 24
"""The number of parts into which a GPU is divided for reservations: 1, 2, 3, 4, 6, 8, 12 or 24 equal jobs fill it."""


def take_jobs_per_gpu(launcher: DictConfig) -> None:
    """Check `hydra.launcher.jobs_per_gpu`, and remove it from joblib's settings; jobs are composed again, and still have it."""
    with open_dict(launcher):
        jobs = launcher.pop("jobs_per_gpu", 1)
    if type(jobs) is not int or not 1 <= jobs <= PARTS:
        raise UserError(f"hydra.launcher.jobs_per_gpu should be a whole number from 1 to {PARTS}, not {jobs}.")


@contextmanager
def share_of_the_machine(device: str, launcher: Mapping[str, Any]) -> Iterator[None]:
    """If jobs run in parallel on this machine, take a share of the threads and of one of the GPUs.

    When the job ends, the number of threads is restored, even if the job has chosen its own.
    """
    import torch  # imported here, so that hooks that check a launcher do not wait for it

    from ganexp.distributed.joining import cores

    before, workers = torch.get_num_threads(), launcher.get("n_jobs")
    try:
        if workers is None:
            yield
            return
        if not os.environ.get("OMP_NUM_THREADS"):  # else torch has as many as was asked for
            torch.set_num_threads(max(1, cores() // (workers if workers > 0 else cores())))
        if device != "auto" or not torch.cuda.is_available():
            yield
            return
        folder = Path.home() / ".cache" / "ganexp" / "gpus"
        with reserved_gpu(torch.cuda.device_count(), folder, jobs=launcher.get("jobs_per_gpu") or 1) as index:
            torch.cuda.set_device(index)  # device=auto then means this one; a resumed job may get another
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def reserved_gpu(count: int, folder: Path, *, jobs: int = 1, poll_s: float = 0.2) -> Iterator[int]:
    """Reserve a share of the emptiest of `count` GPUs for as long as the context lasts; wait while none has room.

    A reservation is a set of locked files below `folder`, which the system unlocks if the process dies. It is made per job, not
    per worker process, so it does not matter whether workers are reused. Sweeps that divide a GPU differently can share it.

    Args:
        count: How many GPUs there are.
        folder: The folder of the locked files of all sweeps on this machine.
        jobs: How many such jobs share a GPU, at most `PARTS`.
        poll_s: Seconds after which to look again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        with FileLock(folder / "reserving.lock"):  # one process at a time, so that no two wait for each other's parts
            index, held = _emptiest(count, folder, PARTS // jobs)
        if held:
            break
        time.sleep(poll_s)
    try:
        yield index
    finally:
        for lock in held:
            lock.release()


def _emptiest(count: int, folder: Path, share: int) -> tuple[int, list[FileLock]]:
    """Return the GPU with the most free parts, and the locks of `share` of them; no locks if fewer are free."""
    free = [[lock for part in range(PARTS) if _taken(lock := FileLock(folder / f"gpu{n}_{part}.lock"))] for n in range(count)]
    index = max(range(count), key=lambda n: len(free[n]))
    reserved = free[index][:share] if len(free[index]) >= share else []
    for lock in (lock for locks in free for lock in locks if not any(lock is kept for kept in reserved)):
        lock.release()
    return index, reserved


def _taken(lock: FileLock) -> bool:
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    return True
