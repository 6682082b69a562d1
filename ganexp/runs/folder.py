"""A run folder: rows as JSON lines, pictures as PNG files."""

import json
import logging
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from PIL import Image

from ganexp.runs.book import Book, Picture, Row, Summary
from ganexp.runs.documents import remove_unfinished, write_document, written_whole
from ganexp.runs.reading import read, read_document

log = logging.getLogger(__name__)
_claimed: dict[Path, FileLock] = {}
"""Folders that this process holds and no book writes into yet."""


class FolderBook(Book):
    """Appends rows to `metrics.jsonl`, a picture as the path of its file. A row is on disk when `write` returns.

    A value that is not finite is written as NaN or Infinity, which Python and pandas read back.

    Args:
        folder: The run folder.
        resumed: Whether rows are there already, to be gone on with.
        documents: What is known from the start, each written as `<name>.json`.

    Raises:
        FileExistsError: Another process is writing there, or there are rows and none were expected.
        OSError: The folder cannot be made, locked or written to.
    """

    def __init__(self, folder: Path, *, resumed: bool = False, **documents: Any) -> None:
        self.folder = folder
        claim(folder)
        self._lock = _claimed.pop(folder.resolve())
        try:
            rows = folder / "metrics.jsonl"
            if rows.exists() and not resumed:
                raise FileExistsError(f"there are rows of another run in {folder}")
            remove_unfinished(folder)
            for name, document in documents.items():
                write_document(folder / f"{name}.json", document)
            self._file = rows.open("ab", buffering=0)  # last: what fails before leaves no trace of a run
        except OSError:
            self._lock.release()
            raise
        self._fresh = not resumed
        self._last_samples: Path | None = None

    def abandon(self) -> None:
        """Close the book of a run that could not begin, and leave the folder free for another one."""
        self._file.close()
        self._lock.release()
        if self._fresh:
            (self.folder / "metrics.jsonl").unlink()

    def write(self, row: Row) -> None:
        for key, value in row.items():
            if isinstance(value, Picture):
                path = self.folder / value.path
                path.parent.mkdir(parents=True, exist_ok=True)
                with written_whole(path) as file:
                    Image.fromarray(value.image).save(file, "png")
                if key == "samples":
                    self._last_samples = path
        plain = {key: value.path if isinstance(value, Picture) else value for key, value in row.items()}
        whole, rest = self._file.tell(), json.dumps(plain).encode() + b"\n"
        try:
            while rest:
                rest = rest[self._file.write(rest) :]  # what a full disk takes may be a part of it
        except OSError:
            self._file.truncate(whole)
            raise

    def rewind(self, iteration: int) -> Row:
        self._file.close()
        path = self.folder / "metrics.jsonl"
        lines = path.read_bytes().splitlines()
        kept = [line for line in lines if _at(line) <= iteration]
        broken = sum(_at(line) == float("inf") for line in lines[:-1])  # the last may be what a kill has left of a row
        if broken:
            log.warning("%d lines of %s are no rows, and are left out.", broken, path)
        with written_whole(path) as file:
            file.write(b"".join(line + b"\n" for line in kept))
        self._file = path.open("ab", buffering=0)
        return {**read(self.folder).last}

    def close(self, summary: Summary) -> None:
        self._file.close()
        samples = {"samples": str(self._last_samples)} if self._last_samples else {}
        summary["paths"] |= {"folder": str(self.folder), **samples, "rows": str(self.folder / "metrics.jsonl")}
        try:
            write_document(self.folder / "summary.json", summary)
        except OSError as error:  # a disk that is full must not hide how the run has ended
            log.warning("No summary.json: %s.", error)
        self._lock.release()


def amend_summary(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Add to a run's summary what is known of it from outside, as by a sweep, and return it; there may be none yet."""
    summary = read_document(folder / "summary.json") | facts
    try:
        write_document(folder / "summary.json", summary)
    except OSError as error:
        log.error("No summary.json: %s.", error)
    return summary


def claim(folder: Path) -> None:
    """Make a run folder, if it is not there, and keep other processes out of it until this one ends or its book is closed.

    Raises:
        FileExistsError: Another process is training there.
        OSError: The folder cannot be made or locked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if folder.resolve() in _claimed:
        return
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise FileExistsError(f"another process is training in {folder}") from None
    except NotImplementedError as error:
        raise OSError(f"{folder} cannot be locked: {error}") from None
    _claimed[folder.resolve()] = lock


def is_claimed(folder: Path) -> bool:
    """Say whether a process, this one included, is training in a folder."""
    if not (folder / ".lock").exists():
        return False
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def release(folder: Path) -> None:
    """Let a folder go that was claimed, if no book has taken it over."""
    lock = _claimed.pop(folder.resolve(), None)
    if lock:
        lock.release()


def _at(line: bytes) -> float:
    """Return the iteration of a row, or infinity for what is none, such as the half that a killed process has left."""
    try:
        return float(json.loads(line)["progress/iteration"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return float("inf")
