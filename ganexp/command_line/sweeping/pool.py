"""One GPU per job, of those that the machine has, for jobs that run side by side."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def gpu_of_the_pool(count: int, folder: Path, *, every_s: float = 0.2) -> Iterator[int]:
    """Hold one of `count` GPUs for as long as the context lasts, waiting while all are held by others.

    A lock is a file below `folder`, held by this process and given back by the system if the process dies. It is
    taken per job, not per worker, so reused workers are as good as new ones.
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
        time.sleep(every_s)
