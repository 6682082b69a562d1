"""CSV files to which rows are appended; a row that a killed process has left incomplete is ignored."""

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path


def read(path: Path, head: Sequence[str]) -> list[list[str]]:
    """Return all whole rows after the head; none if there is no file.

    Raises:
        ValueError: The file has another head, or a row that is too short or too long, as after a merge.
    """
    if not path.exists():
        return []
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    found, *rows = [*csv.reader(io.StringIO(whole.decode(errors="replace")))] or [[*head]]
    if found != [*head]:
        raise ValueError(f"{path} is no file of such results: name another one with --results")
    if broken := next((row for row in rows if len(row) != len(head)), None):
        raise ValueError(
            f"{path} has a line that is no result ({','.join(broken)}): mend it, or name another file with --results"
        )
    return rows


def append(path: Path, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Append rows, after the head if the file is new, and flush them to the disk.

    The file is opened each time, since it may have been replaced meanwhile, for example by git.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        size = file.truncate(file.read().rfind(b"\n") + 1)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*([] if size else [head]), *rows])
        file.write(text.getvalue().encode())
        file.flush()
        os.fsync(file.fileno())
