"""Runs a loop's networks again where the training that follows cannot notice it: in a forked copy of the process.

A copy of a network shares hooks, closures, counters and random generators with it. A copy of the process shares none of them.
"""

import gc
import os
import pickle
import select
import signal
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

import torch

Result = TypeVar("Result")


class NotRun(Exception):
    """Networks were not run again; the message says why."""


def refuse_late(until: float) -> None:
    """Raise `NotRun` after a time of `time.monotonic`."""
    if time.monotonic() > until:
        raise NotRun("the report would take longer than ten of the loop's iterations")


def why_not_isolated() -> str:
    """Return why this process cannot be forked; empty if it can."""
    if not hasattr(os, "fork"):
        return "this system has no copies of a process"
    if torch.accelerator.is_available():
        return "a copy of the process could not use the accelerator"
    if threading.current_thread() is not threading.main_thread():
        return "it is not the main thread that is watched"
    # Other threads, as of a progress bar, W&B or a data loader, are not in the copy and not needed there. A lock that one of
    # them held would keep the copy waiting, and the time limit ends it.
    return ""


def isolated(work: Callable[[], Result], until: float, *, here: bool = False) -> Result:
    """Return the result of `work` from a copy of this process, in which it may change what it wants.

    Args:
        work: Called without arguments. Its result can be pickled.
        until: The time of `time.monotonic` at which it is stopped.
        here: Call it in this process if that cannot be forked, since nothing follows that it could change.

    Raises:
        NotRun: The process cannot be forked, or the work failed, took too long or ended the copy.
    """
    why = why_not_isolated()
    if why and not here:
        raise NotRun(f"its networks are not run again beside your training, as {why}; `ganexp watch script.py` can")
    if why:
        with torch.random.fork_rng():
            result = _result(work)
    else:
        result = _from_copy(work, until)
    if isinstance(result, NotRun):
        raise result
    return result


def _result(work: Callable[[], Result]) -> Result | NotRun:
    try:
        return work()
    except NotRun as error:
        return error
    except Exception as error:  # anything may be in a foreign network
        return NotRun(f"its networks do not run again ({type(error).__name__})")


def _from_copy(work: Callable[[], Result], until: float) -> Result | NotRun:
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of the threads that torch computes with
        child = os.fork()
    if not child:
        _in_copy(work, writing, until)
    os.close(writing)
    try:
        pickled = _read(reading, until)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):  # the loop's own handler may have waited for it
            os.waitpid(child, 0)
    if pickled:
        return pickle.loads(pickled)
    late = time.monotonic() >= until
    return NotRun("it took longer than ten of the loop's iterations" if late else "the copy of the process ended early")


def _read(reading: int, until: float) -> bytes:
    """Return what is written until the pipe is closed, or nothing if that is too late."""
    pickled = b""
    while select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            return pickled
        pickled += part
    return b""


def _in_copy(work: Callable[[], Any], writing: int, until: float) -> NoReturn:
    """Write the result of `work`, or why there is none, and end this copy of the process without any of its usual ends."""
    code = 1
    try:
        gc.disable()  # what the loop frees at its end, it frees in its own process
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(0.001, until - time.monotonic()) + 1)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1), os.dup2(silent, 2)
        torch.set_num_threads(1)  # those of the loop's process are not in its copy
        pickled = memoryview(pickle.dumps(_result(work)))
        while pickled:
            pickled = pickled[os.write(writing, pickled) :]
        code = 0
    finally:
        os._exit(code)
