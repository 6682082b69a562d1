"""Processes that tests start: none outlives its test, and none is waited for without a limit."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

import psutil

from tests.composing import CONF

LIMIT_S = 300  # far beyond what any of them needs beside other tests
TRAIN = str(CONF.parent / "train.py")
_BEGUN = []


class Begun(subprocess.Popen):
    """A command in a session of its own, without W&B's variables, account or input.

    What it says goes to files, which neither fill up nor are held open by what it has started, as pipes are.
    """

    def __init__(self, *command, cwd, **environment):
        self.cwd = cwd
        self.files = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115
        clean = {key: value for key, value in os.environ.items() if not key.startswith("WANDB_")}
        clean |= {"NETRC": os.path.join(cwd, "no-netrc"), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"} | environment
        streams = dict(zip(("stdout", "stderr"), self.files, strict=True))
        words = [*map(str, command)]
        super().__init__(words, cwd=cwd, env=clean, stdin=subprocess.DEVNULL, start_new_session=True, **streams)
        _BEGUN.append(self)

    def said(self):
        """Return what it has said so far, to its standard output and error."""
        return tuple(os.pread(file.fileno(), 2**24, 0).decode(errors="replace") for file in self.files)

    def ended(self, limit_s=LIMIT_S):
        """Return what it has said until its end."""
        try:
            self.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.args} has not ended within {limit_s} s; it said {self.said()}") from None
        return self.said()

    def until(self, condition, limit_s=LIMIT_S):
        """Wait until something holds, or this process has ended, and return whether it does."""
        deadline = time.monotonic() + limit_s
        while not condition() and self.poll() is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.args} has not come so far within {limit_s} s; it said {self.said()}")
            time.sleep(0.02)
        return condition()


def run(*command, cwd, **environment):
    """Run a command to its end."""
    begun = Begun(*command, cwd=cwd, **environment)
    out, err = begun.ended()
    return subprocess.CompletedProcess(command, begun.returncode, out, err)


def begin(*arguments, cwd, **environment):
    """Start `python train.py` with arguments."""
    return Begun(sys.executable, TRAIN, *arguments, cwd=cwd, **environment)


def train(*arguments, cwd, **environment):
    """Run `python train.py` to its end."""
    return run(sys.executable, TRAIN, *arguments, cwd=cwd, **environment)


def end_all():
    """Kill what still runs of all that was begun, with whatever it has started."""
    while _BEGUN:
        begun = _BEGUN.pop()
        if begun.poll() is None:
            for child in psutil.Process(begun.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
            os.killpg(begun.pid, signal.SIGKILL)
            begun.wait(60)
        for file in begun.files:
            file.close()


def reaped(children, limit_s=LIMIT_S):
    """Return with which code each forked child has ended, by its process id; kill those that take too long."""
    codes, deadline = {}, time.monotonic() + limit_s
    while left := [pid for pid in children if pid not in codes]:
        for pid in left:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                codes[pid] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    return codes


def joined(*jobs, limit_s=LIMIT_S):
    """Return with which code each process of `multiprocessing` has ended; kill those that take too long."""
    deadline = time.monotonic() + limit_s
    for job in jobs:
        job.join(max(0, deadline - time.monotonic()))
        if job.is_alive():
            job.kill()
            job.join(60)
    return [job.exitcode for job in jobs]
