"""How a command that torchrun starts in several processes ends: one process prints the error, and all exit."""

import sys
from typing import NoReturn

from ganexp.cli.launching import exit_silently
from ganexp.distributed.group import FailedElsewhere
from ganexp.distributed.processes import Processes
from ganexp.printable import printable


def refuse(said: str, processes: Processes) -> NoReturn:
    """Exit with a sentence, which one process prints."""
    if processes.speaks():
        sys.exit(printable(said))
    exit_silently()


def unwritten(error: OSError) -> str:
    """Return the message for a file that cannot be written; an error about data that cannot be read has its own message."""
    return f"{error.filename} cannot be written: {error.strerror}" if error.filename else str(error).rstrip(".")


def fail(error: RuntimeError, processes: Processes) -> NoReturn:
    """Raise an error that may be a bug, or exit silently if another process has failed."""
    if not isinstance(error, FailedElsewhere) and processes.speaks():
        raise error
    exit_silently()
