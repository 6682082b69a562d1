"""The log of a run: on the screen at once, and in `train.log` as soon as the run has a folder."""

import logging
import sys
from collections.abc import Iterable
from logging.handlers import MemoryHandler
from pathlib import Path
from types import TracebackType

from ganexp.facts import UserError

LOGGED = logging.Formatter("[%(asctime)s][%(name)s][%(levelname)s] - %(message)s")


class Log:
    """The messages of a run or of a job; while it is entered, no other handler sees them.

    Args:
        shown: Whether messages go to the screen and to a file; otherwise errors alone go to stderr.
        verbose: Whether debugging messages are logged too, or of which loggers.
    """

    def __init__(self, *, shown: bool = True, verbose: bool | str | Iterable[str] = False) -> None:
        self._kept = MemoryHandler(sys.maxsize, flushLevel=sys.maxsize)  # until there is a file
        self._kept.setFormatter(LOGGED)
        self._handlers: list[logging.Handler] = [logging.StreamHandler(sys.stdout), self._kept] if shown else []
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
