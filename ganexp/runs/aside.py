"""Work that may hang, done aside: whoever hands it over waits only for as long as they want to."""

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any

LOOK_EVERY_S = 0.1


class Aside:
    """Calls functions in a thread of its own, one after another.

    The thread is a daemon: a call that never returns does not keep the process alive.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._since_s: float | None = None
        Thread(target=self._work, daemon=True, name=type(self).__name__).start()

    def call(self, function: Callable[[], Any]) -> Future[Any]:
        """Hand a function over, and return at once."""
        future: Future[Any] = Future()
        self._calls.put((function, future))
        return future

    def hanging_s(self) -> float:
        """Return for how long the call in progress has been going on."""
        since_s = self._since_s
        return 0.0 if since_s is None else monotonic() - since_s

    def settled(self, patience_s: float) -> bool:
        """Wait for all that was handed over, and say whether it is done; False once a single call takes too long."""
        done = self.call(lambda: None)
        while True:
            try:
                done.result(LOOK_EVERY_S)
                return True
            except TimeoutError:
                if self.hanging_s() > patience_s:
                    return False

    def end(self) -> None:
        """Let the thread go when it has done what it was given."""
        self._calls.put(None)

    def _work(self) -> None:
        for function, future in iter(self._calls.get, None):
            self._since_s = monotonic()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
            self._since_s = None
