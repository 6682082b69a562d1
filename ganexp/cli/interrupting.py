"""Ctrl-C ends a command with one line, from its first import on; so does a file that a script cannot write."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

SAID = "Interrupted; what was written is kept."


def at_once() -> None:
    """Make Ctrl-C end this process at once, until `by_exception`: during imports, an exception may be swallowed or shown."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as in a script's background job
        signal.signal(signal.SIGINT, _end)


def by_exception() -> None:
    """Make Ctrl-C raise KeyboardInterrupt again from now on: there are files to close and to remove."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run(main: Callable[[], object]) -> None:
    """Call the main function of a command or a script, and end with one line at Ctrl-C or where a file cannot be written."""
    by_exception()
    try:
        main()
    except KeyboardInterrupt:
        print(SAID, file=sys.stderr)
        sys.exit(130)
    except OSError as error:
        from ganexp.documents import FULL, Unwritable  # only now: this module is imported before all others
        from ganexp.printable import printable

        if not isinstance(error, Unwritable) and error.errno not in FULL:
            raise
        sys.exit(f"Error: {printable(error.filename or 'a file')} cannot be written: {error.strerror}; name another place.")


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, f"{SAID}\n".encode())
    os._exit(130)
