"""Commands that torchrun starts in several processes: one of them speaks, and all end."""

import sys
from typing import NoReturn

from ganexp.cli.launching import exit_silently
from ganexp.distributed.group import FailedElsewhere
from ganexp.distributed.processes import Processes
from ganexp.printable import printable


def refuse(said: str, processes: Processes) -> NoReturn:
    """Exit with a sentence, which one process says."""
    if processes.speaks():
        sys.exit(printable(said))
    exit_silently()


def unwritten(error: OSError) -> str:
    """Return what to say of a file that cannot be written; data that cannot be read say so themselves."""
    return f"{error.filename} cannot be written: {error.strerror}" if error.filename else str(error).rstrip(".")


def fail(error: RuntimeError, processes: Processes) -> NoReturn:
    """Exit with what may be a bug, or silently after another process that has failed."""
    if not isinstance(error, FailedElsewhere) and processes.speaks():
        raise error
    exit_silently()
