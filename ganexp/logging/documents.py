"""Files that are written atomically: whole at every moment, whatever happens while they are written."""

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

UNFINISHED = ".unfinished"
"""The suffix of a file that is being written; a killed process may leave one behind."""


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to be written beside `path`; it is flushed to disk and renamed over `path` once it is complete.

    Raises:
        OSError: The file could not be written; what was at `path` is untouched, and nothing else is left behind.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        with unfinished.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        if error.errno and not error.filename:  # the error of a full disk names no file
            error.filename = str(path)
        raise
    finally:
        unfinished.unlink(missing_ok=True)


def refuse_unwritable(path: Path) -> None:
    """Check, before the work, that its result could be written to a file; nothing is left behind, not even a folder.

    Raises:
        OSError: The document could not be written.
    """
    try:
        if path.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        folder = next(one for one in path.absolute().parents if one.exists())
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")  # one byte is enough for a full disk to refuse
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_document(path: Path, values: Any) -> None:
    """Write plain values as JSON.

    Raises:
        OSError: They could not be written; what was at `path` is untouched.
    """
    with atomic_write(path) as file:
        file.write((json.dumps(values, indent=2) + "\n").encode())


def remove_unfinished(folder: Path) -> None:
    """Remove the half-written files of killed processes from a run folder that this process has locked."""
    for pattern in (f"*{UNFINISHED}", f"*/*{UNFINISHED}"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
