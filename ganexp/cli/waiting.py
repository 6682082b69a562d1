"""Lines that say that something still goes on, where it may take long before it says anything itself."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 4.0
"""After how many seconds of silence such a line is printed."""


@contextmanager
def speaking(what: str, until: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Print what still goes on and for how long it has, every few seconds, as long as the block lasts.

    Args:
        what: The beginning of the line.
        until: Whether something has happened that speaks for itself: no line is printed from then on.
    """
    over, began = threading.Event(), time.monotonic()

    def speak() -> None:
        while not over.wait(EVERY_S) and not until():
            print(f"{what}, for {time.monotonic() - began:.0f} s.", flush=True)

    threading.Thread(target=speak, daemon=True).start()
    try:
        yield
    finally:
        over.set()
