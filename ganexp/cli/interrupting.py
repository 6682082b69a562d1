"""Ctrl-C ends a command with one line, from its first import on; so does a file that a script cannot write."""

import io
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

SAID = "Interrupted; what was written is kept."


def at_once() -> None:
    """Make Ctrl-C end this process at once, until `by_exception`: during imports, an exception may be swallowed or shown.

    Every command calls this first, so it also looks whether there is a working directory, and opens streams that are closed, as
    by `>&-`, which then lead nowhere. Characters that a stream cannot encode are escaped.
    """
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        os.getcwd()
    except OSError as error:
        sys.exit(f"Error: the working directory cannot be read ({error.strerror}): change to another one.")
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


def _open_closed_streams() -> None:
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: a file of ours would get it otherwise
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, f"{SAID}\n".encode())
    os._exit(130)
