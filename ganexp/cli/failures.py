"""What an exception means: one sentence with the remedy for what a user can mend, and a traceback for what may be a bug.

Commands and scripts print the sentence as they end (`process.ending`); a run, which has a folder by then, logs it.
"""

import errno
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from ganexp.distributed.processes import Processes
from ganexp.documents import FULL, Unwritable
from ganexp.facts import UserError
from ganexp.logging.layout import RunFolder
from ganexp.printable import one_line, printable

log = logging.getLogger(__name__)

OF_PLACES = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO)
"""Errors of a place that a user has named, or of the disk that it is on: wherever they are raised, they are no bug."""
OF_TRAINING = (
    "torchvision",
    "hydra",
    "omegaconf",
    "wandb",
    "tqdm",
    "sklearn",
    "scipy",
    "pydantic",
    "numpy",
    "PIL",
    "filelock",
    "psutil",
)
"""Packages that training needs and that `pip install --no-deps` leaves out."""
SPEAKING_S = 5
"""How long a process waits for the one that reports why all end."""
OUT_OF_MEMORY = "Out of memory ({0}): lower batch_size, dataset.image_size or the width of a network."
NO_WORKER = "A worker process that decodes images has died, usually for lack of memory: lower workers, and {1}."
BROKEN_GPU = "The GPU has failed ({0}): {1}."
ENDED = "Another process of this run has ended ({0}): {1}."
BY_TEXT = {
    "can't allocate memory": OUT_OF_MEMORY,
    "not enough memory": OUT_OF_MEMORY,
    "DataLoader worker (pid": NO_WORKER,
    "CUDA error": BROKEN_GPU,
    "gloo/transport": ENDED,
    "NCCL": ENDED,
}
"""Failures for which torch raises a plain RuntimeError, by a part of its text: nothing else tells them from bugs."""


def meaning(error: Exception, folder: Path | None = None) -> str | None:
    """Return one sentence for an error that a user can mend; None for what may be a bug.

    Args:
        error: The error.
        folder: The folder of the run that it ended, in which there may be a checkpoint to go on from.
    """
    if isinstance(error, UserError):
        return sentence(error)
    if isinstance(error, ModuleNotFoundError) and error.name in OF_TRAINING:
        return f"This needs {error.name}, which is not installed: pip install ganexp without --no-deps brings it."
    if type(error).__module__.partition(".")[0] in ("hydra", "omegaconf"):  # a value that cannot be interpolated, for example
        from ganexp.cli.hydra_errors import sentence as of_hydra

        return of_hydra(error)
    goes_on = "start it again"
    if folder is not None:
        from ganexp.cli.naming import short  # takes what configurations need, and nothing else here does

        has_checkpoint = RunFolder(folder).last.exists()
        goes_on = f"continue with resume={short(folder)}" if has_checkpoint else "begin again, since there is no checkpoint yet"
    if isinstance(error, OSError) and error.errno in FULL:
        return f"The disk is full ({error}): what was written is kept; make room, and {goes_on}."
    if isinstance(error, Unwritable):
        remedy = "" if ":" in str(error.strerror) else "; name another place"
        return f"{error.filename} cannot be written: {error.strerror}{remedy}."
    if isinstance(error, OSError) and error.errno in OF_PLACES and error.filename:
        return f"{str(error.filename)[:200]}: {error.strerror}; name another place, or change this one."
    if isinstance(error, BrokenPipeError):
        return "The output is no longer read (broken pipe); files already written are kept."
    if isinstance(error, MemoryError):
        return OUT_OF_MEMORY.format(_about_memory(error), goes_on)
    if sys.modules.get("ganexp.data") and (explained := _of_data(error, goes_on)):
        return explained
    if sys.modules.get("torch") and (explained := _of_torch(error, goes_on)):
        return explained
    return sentence(error) if isinstance(error, OSError) and error.errno is None else None  # one of ours


def sentence(error: BaseException) -> str:
    """Return an error's text with a full stop."""
    text = str(error).rstrip()
    return text if text.endswith((".", "?", "!")) else f"{text}."


@contextmanager
def logged(processes: Processes, folder: Path) -> Iterator[None]:
    """Log why a run in a folder fails, and end; of several processes one says why, and all end."""
    from ganexp.distributed.group import FailedElsewhere  # imports torch

    try:
        yield
    except Exception as error:
        if isinstance(error, FailedElsewhere) or not processes.is_reporter():
            exit_silently()
        log_failure(error, folder)
        raise SystemExit(1) from None


def log_failure(error: Exception, folder: Path) -> None:
    """Log a sentence for what users can fix, and a traceback for what may be a bug."""
    explanation = meaning(error, folder)
    if explanation:
        log.error("%s", printable(explanation))
    else:
        log.error("The run failed.", exc_info=error)


def exit_silently() -> NoReturn:
    """Exit after the process that reports why all exit: once one has ended, torchrun ends the others."""
    time.sleep(SPEAKING_S)
    raise SystemExit(1)


def _of_data(error: Exception, goes_on: str) -> str | None:
    """Return the sentence for an error of training on data, whose classes take Pillow and more to import."""
    from ganexp.data import DecodingError, ReadingError, UnlikeError
    from ganexp.training import Diverged

    if isinstance(error, Diverged):
        return sentence(error)
    if isinstance(error, UnlikeError):
        return f"{error}, and begin a new run, since these were other data."
    if isinstance(error, ReadingError):
        return f"{error}: {goes_on} once it can."
    if isinstance(error, DecodingError):
        return f"{error}: remove or replace it, and begin a new run, since these were other data."
    return None


def _of_torch(error: Exception, goes_on: str) -> str | None:
    """Return the sentence for an error that cannot be raised before torch is imported."""
    import torch

    if isinstance(error, torch.OutOfMemoryError):
        return OUT_OF_MEMORY.format(_about_memory(error), goes_on)
    if isinstance(error, RuntimeError):
        template = next((template for part, template in BY_TEXT.items() if part in str(error)), None)
        return template and template.format(_about_memory(error), goes_on)
    return None


def _about_memory(error: BaseException) -> str:
    """Return the line of an error's text that tells how much memory was wanted, or else the first one."""
    reason = next((line for line in str(error).splitlines() if "allocate" in line), "")
    return reason.strip().rstrip(".") or one_line(error)
