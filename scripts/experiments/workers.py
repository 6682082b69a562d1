"""Processes of one thread each that make calls side by side, and end with the process that started them."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from unittest.mock import patch

import torch


@contextmanager
def workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Yield an executor of `count` processes; an exception, such as Ctrl-C, ends all of them at once."""
    before = {*multiprocessing.active_children()}
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin)
    try:
        with patch.dict(os.environ, OMP_NUM_THREADS="1"):  # which libraries read as they are imported
            yield pool
    except BaseException:
        for process in {*multiprocessing.active_children()} - before:
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Initialise a worker, which ignores Ctrl-C: its parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait until the parent has ended, perhaps by a kill, and end this process too."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
