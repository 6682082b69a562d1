"""Signals that ask a run to stop: it finishes the iteration, writes a checkpoint, and ends in order."""

import signal
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
"""A shutdown, Ctrl-C, and a cluster's warning before it takes the machine back."""


class Stopping:
    """Notes, as a context, that one of the signals has come. A second Ctrl-C stops at once.

    Outside its context it notes nothing, and signals do what they always do.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Stopping":
        self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = signal.Signals(number)
