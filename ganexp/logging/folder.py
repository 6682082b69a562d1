"""The logger in the run folder: rows as JSON lines, pictures as PNG files."""

import json
import logging
from pathlib import Path
from typing import Any

from PIL import Image

from ganexp.documents import atomic_write, remove_unfinished, write_document
from ganexp.logging.base import Logger, Picture, Row, Summary
from ganexp.logging.layout import RunFolder
from ganexp.logging.lock import hand_over, lock
from ganexp.logging.reading import read
from ganexp.logging.summary import read_summary, write_summary

log = logging.getLogger(__name__)


class FolderLogger(Logger):
    """Appends rows as JSON lines, a picture as the path of its file. A row is on disk when `write` returns.

    A value that is not finite is written as NaN or Infinity, which Python and pandas read back.

    Args:
        folder: The run folder, which is locked.
        resumed: Whether there are rows already, after which new ones are appended.
        config, provenance, measures: Documents that are written first, of the names that `RunFolder` explains.
    """

    def __init__(
        self,
        folder: Path,
        *,
        resumed: bool = False,
        config: dict[str, Any] | None = None,
        provenance: dict[str, Any] | None = None,
        measures: dict[str, Any] | None = None,
    ) -> None:
        self.folder = RunFolder(folder)
        lock(folder)
        self._lock = hand_over(folder)
        try:
            if self.folder.rows.exists() and not resumed:
                raise FileExistsError(f"there are rows of another run in {folder}")
            remove_unfinished(folder)
            documents = {"config": config, "provenance": provenance, "measures": measures}
            for name, document in documents.items():
                if document is not None:
                    write_document(getattr(self.folder, name), document)
            self._ended = read_summary(folder) if resumed else {}
            if self._ended:
                write_summary(folder, self._ended | {"state": "unfinished"})  # how the run ended last time no longer holds
            self._file = self.folder.rows.open("ab", buffering=0)  # last: a failure before this leaves no trace of a run
        except OSError:
            self._lock.release()
            raise
        self._fresh = not resumed
        self._last_samples: Path | None = None

    def abandon(self) -> None:
        """Close the logger of a run that could not begin, and leave the folder free for another one."""
        self._file.close()
        if self._ended:
            write_summary(self.folder.path, self._ended)
        if self._fresh:
            self.folder.rows.unlink(missing_ok=True)
        self._lock.release()

    def write(self, row: Row) -> None:
        for key, value in row.items():
            if isinstance(value, Picture):
                path = self.folder.path / value.path
                with atomic_write(path) as file:
                    Image.fromarray(value.image).save(file, "png")
                if key == "samples" and row["progress/iteration"]:  # what an untrained generator draws is no result
                    self._last_samples = path
        plain = {key: value.path if isinstance(value, Picture) else value for key, value in row.items()}
        whole, rest = self._file.tell(), json.dumps(plain).encode() + b"\n"
        try:
            while rest:
                rest = rest[self._file.write(rest) :]  # a disk that fills up may take only part of it
        except OSError:
            self._file.truncate(whole)
            raise

    def rewind(self, iteration: int) -> Row:
        self._file.close()
        path = self.folder.rows
        lines = path.read_bytes().splitlines()
        kept = [line for line in lines if _at(line) <= iteration]
        broken = sum(_at(line) == float("inf") for line in lines[:-1])  # the last may be half a row, cut off by a kill
        if broken:
            log.warning("Dropped from %s, since they are not rows: %d of its lines.", path, broken)
        with atomic_write(path) as file:
            file.write(b"".join(line + b"\n" for line in kept))
        self._file = path.open("ab", buffering=0)
        return read(self.folder.path).last

    def close(self, summary: Summary) -> None:
        self._file.close()
        if not self.folder.rows.exists():  # a deleted file could be written to until now
            summary["notes"].append(f"{self.folder.rows} was deleted while the run wrote to it: its rows are lost.")
        self.folder.path.mkdir(parents=True, exist_ok=True)
        samples = {"samples": str(self._last_samples)} if self._last_samples else {}
        rows = {"rows": str(self.folder.rows)} if self.folder.rows.exists() else {}
        summary["paths"] |= {"folder": str(self.folder.path), **samples, **rows}
        write_summary(self.folder.path, summary)
        self._lock.release()


def _at(line: bytes) -> float:
    """Return the iteration of a row; infinity for what is not a row, such as half a row that a killed process has left."""
    try:
        return float(json.loads(line)["progress/iteration"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return float("inf")
