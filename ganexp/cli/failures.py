"""Failures during training that are not bugs: each in one sentence with the remedy."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from ganexp.cli.launching import exit_silently
from ganexp.config.schema import ConfigError
from ganexp.data import DecodingError, UnlikeError
from ganexp.distributed.group import FailedElsewhere
from ganexp.distributed.processes import Processes
from ganexp.documents import FULL
from ganexp.logging.layout import RunFolder
from ganexp.printable import printable
from ganexp.training import Diverged

log = logging.getLogger(__name__)

OUT_OF_MEMORY = "Out of memory ({}): lower batch_size, dataset.image_size or the width of a network."
NO_WORKER = "A worker process that decodes images has died, usually for lack of memory: lower workers, and {1}."
BROKEN_GPU = "The GPU has failed ({}): {}."
ENDED = "Another process of this run has ended ({}): {}."
BY_TEXT = {
    "can't allocate memory": OUT_OF_MEMORY,
    "not enough memory": OUT_OF_MEMORY,
    "DataLoader worker (pid": NO_WORKER,
    "CUDA error": BROKEN_GPU,
    "gloo/transport": ENDED,
    "NCCL": ENDED,
}
"""Failures for which torch raises a plain RuntimeError, by a part of its text: nothing else tells them from bugs."""


def explain(error: BaseException, folder: Path | None = None) -> str | None:
    """Return one sentence for an error that ended a run; None for what may be a bug.

    Args:
        error: The error.
        folder: The folder of the run, in which there may be a checkpoint to go on from.
    """
    has_checkpoint = folder is not None and RunFolder(folder).last.exists()
    goes_on = f"continue with resume={folder}" if has_checkpoint else "begin again, since there is no checkpoint yet"
    if isinstance(error, (ConfigError, Diverged)):
        return str(error)
    if isinstance(error, UnlikeError):
        return f"{error}, and begin a new run, since these were other data."
    if isinstance(error, DecodingError):
        return f"{error}: remove or replace it, and begin a new run, since these were other data."
    if isinstance(error, OSError) and error.errno in FULL:
        return f"The disk is full ({error}): what was written is kept; make room, and {goes_on}."
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return OUT_OF_MEMORY.format(_reason(error))
    if isinstance(error, torch.AcceleratorError):
        return BROKEN_GPU.format(_reason(error), goes_on)
    if isinstance(error, RuntimeError):
        template = next((template for part, template in BY_TEXT.items() if part in str(error)), None)
        return template and template.format(_reason(error), goes_on)
    return None


@contextmanager
def logged(processes: Processes, folder: Path) -> Iterator[None]:
    """Log why a run in a folder fails, and end; of several processes one says why, and all end."""
    try:
        yield
    except Exception as error:
        if isinstance(error, FailedElsewhere) or not processes.is_reporter():
            exit_silently()
        log_failure(error, folder)
        raise SystemExit(1) from None


def log_failure(error: Exception, folder: Path) -> None:
    """Log a sentence for what users can fix, and a traceback for what may be a bug."""
    sentence = explain(error, folder)
    if sentence:
        log.error("%s", printable(sentence))
    else:
        log.error("The run failed.", exc_info=error)


def _reason(error: BaseException) -> str:
    """Return the line of an error's text that tells how much memory was wanted, or else the first one."""
    lines = str(error).splitlines() or ["no more is known"]
    return next((line for line in lines if "allocate" in line), lines[0]).strip().rstrip(".")
