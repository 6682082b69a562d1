"""Stopping a sweep: the signal is noted once for all the jobs that a process runs one after another."""

import functools
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from ganexp.cli import process
from ganexp.cli.ending import stopped_by
from ganexp.cli.naming import short

if TYPE_CHECKING:
    from ganexp.training import Stopping

STARTED_BY = "GANEXP_SWEEP"
"""The environment variable that tells the processes of jobs which process has started them."""


@functools.cache
def signals() -> "Stopping":
    """Return the context manager that notes the signals that ask this process's jobs to stop: a process has one."""
    from ganexp.training import Stopping  # imports torch, which a mistake on the command line need not wait for

    return Stopping()


def received() -> signal.Signals | None:
    """Return the signal that asks this process's jobs to stop, if there has been one."""
    return signals().received


def pass_on_to_workers() -> None:
    """From now on, pass signals on to the processes that run jobs: a signal to this one alone does not reach them."""
    process.by_exception()
    os.environ[STARTED_BY] = str(os.getpid())
    signals().when_received(_stop_workers)
    signals().__enter__()


@functools.cache
def stop_with_the_sweep() -> None:
    """In a worker process, stop the job with a checkpoint, as at a signal, when the sweep's process has died."""
    if STARTED_BY in os.environ:
        threading.Thread(target=_watch, daemon=True).start()


def exit_if_alone() -> None:
    """End a worker process if the sweep's process has died."""
    if _is_alone():
        os._exit(128 + signal.SIGTERM)  # nobody is there to take what the job has returned


def exit_if_stopped(folder: Path) -> None:
    """End the program if a signal has stopped its jobs, and print how to resume the sweep in a folder."""
    if stopped := received():
        print(stopped_by(stopped, f"sweep.resume={short(folder)}"))
        raise SystemExit(128 + stopped)


def _stop_workers() -> None:
    for worker in psutil.Process().children():
        with suppress(psutil.Error):
            worker.send_signal(signal.SIGTERM)


def _is_alone() -> bool:
    starter = os.environ.get(STARTED_BY)
    return starter is not None and int(starter) not in (os.getpid(), os.getppid())


def _watch() -> None:
    while not _is_alone():
        time.sleep(1)
    signal.raise_signal(signal.SIGTERM)
