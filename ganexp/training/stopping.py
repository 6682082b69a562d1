"""Signals that ask a run to stop: it finishes the iteration, writes a checkpoint, and ends in order."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

SIGNALS = [number for number in signal.Signals if number.name in ("SIGTERM", "SIGINT", "SIGUSR1", "SIGHUP")]
"""A shutdown, Ctrl-C, a cluster's warning before it takes the machine back, and a terminal that is closed; Windows has two."""


class Stopping:
    """Notes, as a context manager, that one of the signals has come. A second Ctrl-C stops at once.

    Outside its context it notes nothing, and signals do what they always do. A signal that something else handles, such
    as a launcher that requeues jobs, is left to it, and a SIGHUP that `nohup` has turned off stays off.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: list[dict[signal.Signals, Any]] = []
        self._then: Callable[[], None] = lambda: None

    def when_received(self, then: Callable[[], None]) -> None:
        """Call `then` as soon as a signal comes."""
        self._then = then

    def __enter__(self) -> "Stopping":
        self._before.append({number: signal.signal(number, self._note) for number in SIGNALS if _is_free(number)})
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.pop().items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.received is None:
            self.received = signal.Signals(number)
            self._then()


def _is_free(number: signal.Signals) -> bool:
    handler = signal.getsignal(number)
    if handler == signal.SIG_IGN:
        return number.name != "SIGHUP"
    return handler in (signal.SIG_DFL, signal.default_int_handler) or isinstance(getattr(handler, "__self__", None), Stopping)
