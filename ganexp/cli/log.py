"""The log of a run: on the screen at once, and in `train.log` as soon as the run has a folder."""

import hashlib
import logging
import sys
from collections.abc import Iterable
from contextlib import suppress
from logging.handlers import MemoryHandler
from pathlib import Path
from types import TracebackType

from ganexp.facts import UserError

LOGGED = logging.Formatter("[%(asctime)s][%(name)s][%(levelname)s] - %(message)s")
ABOUT_SETTINGS = ("ganexp.config", "ganexp.data", "ganexp.evaluation", "ganexp.cli.composing")
"""The loggers whose messages are about settings: jobs of a sweep would repeat them."""
SHOWN = ".shown"
"""The folder in a sweep's, from its first job to its end, with an empty file for each such message that a job has shown."""


class OncePerSweep(logging.Filter):
    """Shows a message about settings if no other job has shown the same, in whichever process.

    Args:
        folder: The folder of the sweep.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder / SHOWN
        with suppress(OSError):
            self._folder.mkdir(exist_ok=True)  # also tells the sweep that a job has started

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a message is shown; making a file that is not there yet is what only one process can do."""
        if not record.name.startswith(ABOUT_SETTINGS):
            return True
        try:
            (self._folder / hashlib.sha256(record.getMessage().encode()).hexdigest()).touch(exist_ok=False)
        except FileExistsError:
            return False
        except OSError:
            return True
        return True


class Log:
    """The messages of a run or of a job; while it is entered, no other handler sees them.

    Args:
        shown: Whether messages go to the screen and to a file; otherwise errors alone go to stderr.
        verbose: Whether debugging messages are logged too, or of which loggers.
        sweep: The folder of the sweep of a job, whose jobs show once what they say about settings; their files have all of it.
    """

    def __init__(self, *, shown: bool = True, verbose: bool | str | Iterable[str] = False, sweep: Path | None = None) -> None:
        self._kept = MemoryHandler(sys.maxsize, flushLevel=sys.maxsize)  # until there is a file
        self._kept.setFormatter(LOGGED)
        screen = logging.StreamHandler(sys.stdout)
        if sweep:
            screen.addFilter(OncePerSweep(sweep))
        self._handlers: list[logging.Handler] = [screen, self._kept] if shown else []
        self._level = logging.INFO if shown else logging.ERROR
        self._verbose = [None] * verbose if isinstance(verbose, bool) else [verbose] if isinstance(verbose, str) else verbose

    def __enter__(self) -> "Log":
        """Begin to log."""
        logging.raiseExceptions = False  # for a full disk, on which the screen or the file may lie
        root = logging.getLogger()
        self._before = root.handlers, root.level
        root.handlers = self._handlers
        root.setLevel(self._level)
        for name in self._verbose:
            logging.getLogger(name).setLevel(logging.DEBUG)
        return self

    def begin(self, folder: Path) -> None:
        """Write the log of a run into its folder, with what was logged before."""
        if self._kept not in self._handlers:
            return
        try:
            file = logging.FileHandler(folder / "train.log", errors="replace")
        except OSError as error:
            raise UserError(f"{folder / 'train.log'} cannot be written ({error}): choose another hydra.run.dir.") from None
        file.setFormatter(LOGGED)
        self._handlers[self._handlers.index(self._kept)] = file
        self._kept.setTarget(file)
        self._kept.close()  # hands over what was kept

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the file, and log as before."""
        for handler in self._handlers:
            handler.close()
        root = logging.getLogger()
        root.handlers, level = self._before
        root.setLevel(level)
