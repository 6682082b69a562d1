"""How the process of a command or a script begins, before anything slow is imported, and how it ends."""

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

CHOSEN = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}
"""Environment variables by which a user tells OpenMP's idle threads to sleep, or to spin."""
SAID = "Interrupted; what was written is kept."


def begin() -> None:
    """Prepare a process for a command or a script; each calls this first.

    Until `by_exception`, Ctrl-C ends the process at once: during imports, an exception may be swallowed or shown. Streams that
    are closed, as by `>&-`, are opened and lead nowhere; characters that a stream cannot encode are escaped. Idle threads of
    OpenMP sleep after some microseconds, since other processes may want the cores: docs/benchmarks.md.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):
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
    if not CHOSEN & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "3000"


def by_exception() -> None:
    """Make Ctrl-C raise KeyboardInterrupt again from now on: there are files to close and to remove."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run(main: Callable[[], object]) -> None:
    """Call the main function of a script whose imports are done."""
    with ending():
        by_exception()
        main()


@contextmanager
def ending() -> Iterator[None]:
    """End the process with one line at Ctrl-C, and for what a user can mend; what may be a bug is raised."""
    try:
        yield
    except KeyboardInterrupt:
        print(SAID, file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        from ganexp.cli.failures import meaning  # only now: this module is imported before all others
        from ganexp.printable import printable

        sentence = meaning(error)
        if sentence is None:
            raise
        sys.exit(f"Error: {printable(sentence)}")


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
