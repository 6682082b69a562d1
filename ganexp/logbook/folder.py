"""A run folder: rows as JSON lines, pictures as PNG files."""

import json
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from PIL import Image

from ganexp.logbook.book import Book, Picture, Row, State


class FolderBook(Book):
    """Appends rows to `metrics.jsonl`, a picture as the path of its file. A row is on disk when `write` returns.

    A value that is not finite is written as NaN or Infinity, which Python and pandas read back.

    Args:
        folder: The run folder.
        resumed: Whether rows are there already, to be gone on with.
        documents: What is known from the start, each written as `<name>.json`.

    Raises:
        FileExistsError: Another process is writing there, or there are rows and none were expected.
    """

    def __init__(self, folder: Path, *, resumed: bool = False, **documents: Any) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(folder / ".lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise FileExistsError(f"another process is training in {folder}") from None
        self._file = (folder / "metrics.jsonl").open("a" if resumed else "x")
        for name, document in documents.items():
            (folder / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
        self._last_samples: Path | None = None

    def write(self, row: Row) -> None:
        for key, value in row.items():
            if isinstance(value, Picture):
                path = self.folder / value.path
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(value.image).save(path)
                if key == "samples":
                    self._last_samples = path
        plain = {key: value.path if isinstance(value, Picture) else value for key, value in row.items()}
        self._file.write(json.dumps(plain) + "\n")
        self._file.flush()

    def rewind(self, iteration: int) -> None:
        self._file.close()
        path = self.folder / "metrics.jsonl"
        kept = [line for line in path.read_text().splitlines() if _at(line) <= iteration]
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text("".join(f"{line}\n" for line in kept))
        unfinished.replace(path)
        self._file = path.open("a")

    def close(self, state: State) -> None:
        self._file.close()
        self._lock.release()

    def signposts(self) -> dict[str, str]:
        rows = {"rows": str(self.folder / "metrics.jsonl")}
        return ({"samples": str(self._last_samples)} if self._last_samples else {}) | rows


def _at(line: str) -> float:
    """Return the iteration of a row, or infinity for what a killed process has left of one."""
    try:
        return float(json.loads(line)["progress/iteration"])
    except (ValueError, KeyError, TypeError):
        return float("inf")
