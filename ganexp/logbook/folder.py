"""A run folder: rows as JSON lines, pictures as PNG files."""

import json
from pathlib import Path

from PIL import Image

from ganexp.logbook.book import Book, Picture, Row


class FolderBook(Book):
    """Appends rows to `metrics.jsonl`, a picture as the path of its file. A row is on disk when `write` returns.

    A value that is not finite is written as NaN or Infinity, which Python and pandas read back.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "metrics.jsonl").open("a")
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

    def close(self, *, failed: bool) -> None:
        self._file.close()

    def signposts(self) -> dict[str, str]:
        rows = {"rows": str(self.folder / "metrics.jsonl")}
        return ({"samples": str(self._last_samples)} if self._last_samples else {}) | rows
