"""Ctrl-C ends a command with one line, from its first import on."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

SAID = "Interrupted; what was written is kept."


def at_once() -> None:
    """End this process at Ctrl-C, until `by_exception`: while modules are imported, an exception may be swallowed or shown."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as in the background of a script
        signal.signal(signal.SIGINT, _end)


def by_exception() -> None:
    """From now on let Ctrl-C be a KeyboardInterrupt again: there are files to close and to remove."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run(main: Callable[[], object]) -> None:
    """Call what a script does, and end at Ctrl-C with one line."""
    by_exception()
    try:
        main()
    except KeyboardInterrupt:
        print(SAID, file=sys.stderr)
        sys.exit(130)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, f"{SAID}\n".encode())
    os._exit(130)
