"""Files that are written atomically: whole at every moment, whatever happens while they are written."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

UNFINISHED = ".unfinished"
"""The suffix of a file that is being written; a killed process may leave one behind."""


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to be written beside `path`; it is flushed to disk and renamed over `path` once all of it is there.

    Raises:
        OSError: It could not be written; what was at `path` is untouched, and nothing else is left.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        with unfinished.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


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
