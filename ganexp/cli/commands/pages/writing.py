"""Places that results are written to."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ganexp.logging import documents

REMEDY = "name another place with --output"


@contextmanager
def writing(path: Path, remedy: str = REMEDY) -> Iterator[None]:
    """Run a block that writes a file; exit with an error message if it cannot."""
    try:
        yield
    except OSError as error:
        sys.exit(f"Error: {error.filename or path} cannot be written: {error.strerror or error}; {remedy}.")


def refuse_unwritable(path: Path, remedy: str = REMEDY) -> None:
    """Exit with an error message, before the work, if a file could not be written."""
    with writing(path, remedy):
        documents.refuse_unwritable(path)
