"""How a command that fails ends: with one sentence for what its user can mend, with a traceback for a bug of ours.

Of several processes that torchrun has started, one says why, and all exit.
"""

import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TypeVar

from ganexp.config.schema import ConfigError
from ganexp.documents import FULL
from ganexp.printable import printable

Result = TypeVar("Result")


def call(main: Callable[[Namespace], Result], options: Namespace) -> Result:
    """Run a command with the options that were typed, and return what it returns.

    Raises:
        SystemExit: It has failed.
    """
    try:
        return main(options)
    except Exception as error:
        sentence, processes = _sentence(error, options), getattr(options, "processes", None)
        if sentence != "" and (processes is None or processes.is_reporter()):
            if sentence is None:
                raise
            sys.exit(printable(f"Error: {sentence}."))
    from ganexp.cli.launching import exit_silently

    exit_silently()


def _sentence(error: Exception, options: Namespace) -> str | None:
    """Return what the user can mend, without its full stop; None for what may be a bug, empty if another process says it."""
    if isinstance(error, OSError) and not error.filename and error.errno in FULL:
        return f"what is printed, or a file, cannot be written: {error.strerror}"
    if isinstance(error, ConfigError) or (isinstance(error, OSError) and not error.filename):
        return str(error).rstrip(".")
    if isinstance(error, OSError):  # about data that cannot be read, there is a message of its own
        remedy = "; name another place with --output" if "output" in options else ""
        return f"{error.filename} cannot be written: {error.strerror}{remedy}"
    from ganexp.distributed.group import FailedElsewhere  # imports torch, as do all of these
    from ganexp.distributed.joining import CannotJoin
    from ganexp.evaluation import EvaluationError
    from ganexp.sampling import SamplingError
    from ganexp.training import CheckpointError

    if isinstance(error, FailedElsewhere):
        return ""
    known = (CannotJoin, CheckpointError, EvaluationError, SamplingError)
    return str(error).rstrip(".") if isinstance(error, known) else None
