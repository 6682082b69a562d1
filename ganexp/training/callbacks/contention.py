"""Threads that spin while other processes want their cores."""

import logging
import os
import time
from pathlib import Path
from typing import NamedTuple

from ganexp.logging import Row
from ganexp.training.run import Callback, Run

log = logging.getLogger(__name__)

CHOSEN = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}
"""Environment variables by which OpenMP's idle threads are told to sleep, or to spin."""
LONG_S = 10
"""The shortest interval that is judged, in seconds; contention in a shorter one may be another process starting up."""


class Use(NamedTuple):
    """What a process has used of the machine, in seconds since some point in time."""

    wall_s: float
    process_s: float
    """Processor time of all of its threads."""
    thread_s: float
    """Processor time of the thread that trains, a part of `process_s`."""
    queued_s: float
    """How long its threads have waited for a core, added up over threads."""


class Contention(Callback):
    """Says in the log, once, that idle threads spin while other processes want the cores. It adds nothing to rows.

    A thread of OpenMP that waits for the others of its team takes a whole core by default. Where other processes want
    the cores, the thread that it waits for may be without one meanwhile, and an iteration takes many times as long. Only Linux
    tells how long threads queue for a core; elsewhere nothing is said.

    Args:
        every: The interval in iterations.
    """

    def __init__(self, every: int = 50) -> None:
        self.every = every if not CHOSEN & os.environ.keys() else 0
        self._before = used()

    def begin(self, run: Run) -> None:
        self._before = used()

    def __call__(self, run: Run) -> Row:
        now = used()
        since = Use(*(after - before for after, before in zip(now, self._before, strict=True)))
        if since.wall_s < LONG_S:
            return {}
        self._before = now
        if spinning(since):
            self.every = 0
            log.warning(
                "Idle threads of this run spin on cores that other processes want, which can make it many times slower: end "
                "it, and resume it with OMP_WAIT_POLICY=passive in the environment, which changes no result, or begin it anew "
                "with OMP_NUM_THREADS=1."
            )
        return {}


def spinning(use: Use) -> bool:
    """Return whether threads other than the one that trains are busy too, and threads wait long for cores."""
    return use.process_s > 1.3 * use.thread_s and use.queued_s > 0.3 * use.wall_s


def used() -> Use:
    """Return what this process has used so far; to be called by the thread that trains."""
    queued_ns = 0
    for file in Path("/proc/self/task").glob("*/schedstat"):
        try:
            queued_ns += int(file.read_text().split()[1])
        except (OSError, IndexError):  # the thread has ended, or the kernel does not count
            continue
    return Use(time.perf_counter(), time.process_time(), time.thread_time(), queued_ns / 1e9)
