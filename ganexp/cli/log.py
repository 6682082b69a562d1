"""The log of a run: on the screen at once, and in `train.log` as soon as the run has a folder."""

import logging
import sys
from collections.abc import Iterable
from logging.handlers import MemoryHandler
from pathlib import Path
from types import TracebackType

from ganexp.facts import UserError

LOGGED = logging.Formatter("[%(asctime)s][%(name)s][%(levelname)s] - %(message)s")


_SAID: set[str] = set()
"""What earlier jobs of this process have said about their settings, data and measures."""
ABOUT_SETTINGS = ("ganexp.config", "ganexp.data", "ganexp.evaluation", "ganexp.cli.composing")
"""The loggers whose messages are about settings: jobs of a sweep would repeat them."""


def once(record: logging.LogRecord) -> bool:
    """Return whether a message is shown: one about settings is not, if an earlier job has said the same."""
    if not record.name.startswith(ABOUT_SETTINGS):
        return True
    said, text = len(_SAID), record.getMessage()
    _SAID.add(text)
    return len(_SAID) > said


class Log:
    """The messages of a run or of a job; while it is entered, no other handler sees them.

    Args:
        shown: Whether messages go to the screen and to a file; otherwise errors alone go to stderr.
        verbose: Whether debugging messages are logged too, or of which loggers.
        of_a_job: Whether the screen shows what several jobs say about settings once; the file has all of it.
    """

    def __init__(self, *, shown: bool = True, verbose: bool | str | Iterable[str] = False, of_a_job: bool = False) -> None:
        self._kept = MemoryHandler(sys.maxsize, flushLevel=sys.maxsize)  # until there is a file
        self._kept.setFormatter(LOGGED)
        screen = logging.StreamHandler(sys.stdout)
        if of_a_job:
            screen.addFilter(once)
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
