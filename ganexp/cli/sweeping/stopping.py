"""Stopping a sweep: one record of the signal for all the jobs that a process runs, one after another."""

import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from ganexp.cli import interrupting
from ganexp.cli.ending import stopped_by
from ganexp.cli.naming import short
from ganexp.cli.state import state

if TYPE_CHECKING:
    from ganexp.training import Stopping


def signals() -> "Stopping":
    """Return the context manager that notes the signals that ask this process's jobs to stop."""
    if state.stopping is None:
        from ganexp.training import Stopping  # imports torch, which a mistake on the command line need not wait for

        state.stopping = Stopping()
    return state.stopping


def received() -> signal.Signals | None:
    """Return the signal that asks this process's jobs to stop, if there has been one."""
    return state.stopping.received if state.stopping else None


def pass_on_to_workers() -> None:
    """From now on, pass signals on to the processes that run jobs: a signal to this one alone does not reach them."""
    interrupting.by_exception()
    signals().when_received(_stop_workers)
    signals().__enter__()


def exit_if_stopped(folder: Path) -> None:
    """End the program if a signal has stopped its jobs, and print how to resume the sweep in a folder."""
    if stopping := received():
        print(stopped_by(stopping, "-m", f"sweep.resume={short(folder)}"))
        raise SystemExit(128 + stopping)


def _stop_workers() -> None:
    for worker in psutil.Process().children():
        with suppress(psutil.Error):
            worker.send_signal(signal.SIGTERM)
