"""What a person sees when a command fails: a sentence for a mistake of theirs, a traceback for a bug of ours.

Which of the two it is follows from where an error is caught and from its type. Torch is not imported here: a typing error
is answered at once.
"""

import sys
import traceback
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from ganexp.cli import interrupting
from ganexp.cli.hydra_errors import sentence
from ganexp.cli.state import state
from ganexp.cli.sweeping import Results, stopping
from ganexp.config.schema import ConfigError
from ganexp.documents import FULL
from ganexp.logging.reading import find
from ganexp.printable import printable


@contextmanager
def exiting_with_a_sentence() -> Iterator[None]:
    """End the program with a sentence for a mistake of the user's, and with a traceback for anything else.

    For our code that Hydra calls: Hydra would turn an exception in a callback into a warning, but lets SystemExit pass.
    """
    try:
        yield
    except ConfigError as error:
        raise SystemExit(f"Error: {printable(error)}") from None
    except (HydraException, OmegaConfBaseException) as error:  # a value that cannot be interpolated, for example
        raise SystemExit(f"Error: {printable(sentence(error))}") from None
    except Exception:
        traceback.print_exc()
        raise SystemExit(1) from None


def report(error: Exception | KeyboardInterrupt) -> str | int:
    """Return what to exit with after Hydra has raised an error: a sentence, or 1 after printing a traceback."""
    if isinstance(error, KeyboardInterrupt):
        print(interrupting.SAID, file=sys.stderr)
        return 130
    if signal := stopping.received():  # the signal also ends processes that Hydra was waiting for
        print(f"Stopped by {signal.name}; what was written is kept.", file=sys.stderr)
        return 128 + signal
    if isinstance(error, ConfigError):
        return f"Error: {printable(error)}"
    if not state.composed or isinstance(error, (HydraException, OmegaConfBaseException)):
        return f"Error: {printable(sentence(error))}"
    full = isinstance(error, OSError) and error.errno in FULL  # which names no file
    if full or (isinstance(error, OSError) and error.filename):  # about a folder that Hydra makes: `folders` makes ours
        return f"Error: the run folder cannot be made: {printable(error)}; choose another hydra.run.dir or hydra.sweep.dir."
    if state.search and isinstance(error, ValueError) and not find(state.search):
        return f"Error: the search cannot begin: {printable(str(error).rstrip('.'))}."
    if state.search and isinstance(error, ValueError) and not _has_a_value(Results.read(state.search)):
        return "Error: no trial of the search has a value; the summary.json and train.log of its jobs say why."
    if isinstance(error, BrokenProcessPool):  # one of joblib's, which then ends the others
        return (
            "Error: a process that runs jobs has died, usually for lack of memory: lower hydra.launcher.n_jobs, and continue "
            "with sweep.resume=."
        )
    traceback.print_exception(error, file=sys.stderr)
    return 1


def _has_a_value(found: Results) -> bool:
    """Return whether a finished job of a search has logged what it optimises."""
    return any(run.state == "finished" and found.sweep.metric in run.last for run in found.jobs.values())
