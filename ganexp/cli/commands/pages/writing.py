"""Places that results are written to."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def writing(path: Path, remedy: str = "name another place with --output") -> Iterator[None]:
    """Run a block that writes a file, or tests whether it could be written; exit with an error message if it cannot."""
    try:
        yield
    except OSError as error:
        sys.exit(f"Error: {error.filename or path} cannot be written: {error.strerror or error}; {remedy}.")
