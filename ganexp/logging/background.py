"""Calls that may hang, made in a background thread: the caller waits only for as long as it wants to."""

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any

POLL_S = 0.1


class Background:
    """Makes calls in a thread of its own, one after another.

    The thread is a daemon: a call that never returns does not keep the process alive.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._since_s: float | None = None
        Thread(target=self._work, daemon=True, name=type(self).__name__).start()

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """Queue a call, and return at once."""
        future: Future[Any] = Future()
        self._calls.put((function, future))
        return future

    def busy_s(self) -> float:
        """Return how long the current call has been running."""
        since_s = self._since_s
        return 0.0 if since_s is None else monotonic() - since_s

    def wait(self, timeout_s: float) -> bool:
        """Wait for all queued calls, and return whether they are done; False as soon as a single call takes too long."""
        done = self.submit(lambda: None)
        while True:
            try:
                done.result(POLL_S)
                return True
            except TimeoutError:
                if self.busy_s() > timeout_s:
                    return False

    def close(self) -> None:
        """End the thread once the queued calls are done."""
        self._calls.put(None)

    def _work(self) -> None:
        for function, future in iter(self._calls.get, None):
            self._since_s = monotonic()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
            self._since_s = None
