"""Reads run folders, finished, unfinished or broken. Their content is not trusted."""

import functools
import json
import os
import stat
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from ganexp.documents import DEEPEST, leaves, refuse_outside
from ganexp.facts import UserError
from ganexp.instruments.scalar import Scalar
from ganexp.logging.keys import known
from ganexp.logging.layout import SAVED, RunFolder


@dataclass
class RecordedRun:
    """The content of a run folder. Files that cannot be read are listed in `problems`, and the rest is kept.

    A row has numbers (NaN and infinities included) and, as strings, paths of pictures. `progress/iteration` is in every one.
    """

    folder: Path
    rows: list[dict[str, Any]] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    measures: dict[str, Scalar] = field(default_factory=dict)
    """The measures of its loss, augmentation and evaluation."""
    problems: list[str] = field(default_factory=list)

    @property
    def state(self) -> str:
        """`finished`, `failed`, `preempted`, `skipped`, or `unfinished` for one that is running or was killed.

        A job of a sweep that has no folder is `missing`.
        """
        return str(self.summary.get("state", "unfinished"))

    @property
    def wandb_id(self) -> str | None:
        """The id of its W&B run, if it has one."""
        return self._line_of(RunFolder(self.folder).wandb_id)

    @property
    def trackio_run(self) -> str | None:
        """The name of its Trackio run, if it has one."""
        return self._line_of(RunFolder(self.folder).trackio_run)

    def _line_of(self, path: Path) -> str | None:
        try:
            refuse_outside(path, self.folder)
            with _opened(path) as file:
                return file.read().strip() or None
        except (OSError, ValueError):
            return None

    @property
    def overrides(self) -> dict[str, str]:
        """The overrides of a job of a sweep, known even if it was skipped."""
        return dict(override.lstrip("+").split("=", 1) for override in self.summary.get("overrides", []) if "=" in override)

    @property
    def error(self) -> str:
        """Why it failed or was skipped, if it was."""
        return str(self.summary.get("error", ""))

    @functools.cached_property
    def last(self) -> dict[str, Any]:
        """The last value of every key, pictures excepted."""
        return {key: value for row in self.rows for key, value in row.items() if not isinstance(value, str)}


def is_run(folder: Path) -> bool:
    """Return whether a folder looks like a run's."""
    place = RunFolder(folder)
    return any(os.path.lexists(path) for path in (place.rows, place.summary, place.config))


def find(folder: Path) -> list[Path]:
    """Return the run folders at or directly below a folder, jobs of a sweep in the order of their numbers."""
    if is_run(folder):
        return [folder]
    try:
        below = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []
    return sorted((path for path in below if is_run(path)), key=lambda path: (job_number(path), path.name))


def is_saved(folder: Path) -> bool:
    """Return whether a folder looks like a saved generator's."""
    return any((folder / name).is_file() for name in SAVED)


def checkpoint_at(place: Path) -> Path:
    """Return the checkpoint that a path refers to, existing or not: a file, or the last one of a run; refuse a sweep."""
    if not place.is_dir():
        return place
    last = RunFolder(place).last
    jobs = [] if last.exists() or is_run(place) else [job for job in find(place) if RunFolder(job).last.exists()]
    if jobs:
        raise UserError(f"{place} is a sweep of {len(jobs)} runs: name one of them, such as {jobs[0]}")
    return last


def read(folder: Path) -> RecordedRun:
    """Read a run folder; never fails, whatever is in it or missing from it."""
    run, place = RecordedRun(folder), RunFolder(folder)
    run.config = _document(run, place.config)
    for key, value in _document(run, place.measures).items():
        try:
            run.measures[key] = _measure(value)
        except TypeError:
            run.problems.append(f"{place.measures.name} has no usable {key}")
    for key, value in _document(run, place.summary).items():
        if key in SUMMARY and not SUMMARY[key](value):
            run.problems.append(f"{place.summary.name} has no usable {key}")
        else:
            run.summary[key] = value
    try:
        refuse_outside(place.rows, folder)
        with _opened(place.rows, errors="replace") as file:
            _add_rows(run, file, place.rows.name)
    except FileNotFoundError:
        if run.state not in ("skipped", "failed"):
            run.problems.append(f"{place.rows.name} is missing")
    except OSError as error:
        run.problems.append(f"{place.rows.name} cannot be read: {error.strerror}")
    return run


def read_document(path: Path) -> dict[str, Any]:
    """Read one of a run folder's JSON files; empty if it is missing or broken."""
    try:
        return _parsed(path)
    except (OSError, ValueError):
        return {}


def _add_rows(run: RecordedRun, file: TextIO, name: str) -> None:
    numbers = known(run.measures)
    for number, line in enumerate(file, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or not _is_count(row.get("progress/iteration")):
            run.problems.append(f"{name}, line {number}, is not a row")
            continue
        wrong = [
            key for key, value in row.items() if not (_is_number(value) or (isinstance(value, str) and key not in numbers))
        ]
        run.rows.append({key: value for key, value in row.items() if key not in wrong})
        run.problems += [f"{name}, line {number}: {key} is not a number" for key in wrong]


def _measure(value: Any) -> Scalar:
    """Return a measure from its description in a document; a TypeError if the value does not describe one."""
    if not isinstance(value, dict):
        raise TypeError
    real = value.get("real")
    if not (real is None or _is_number(real)) or not all(isinstance(value[key], str) for key in value.keys() - {"real"}):
        raise TypeError
    return Scalar(**value)


def _document(run: RecordedRun, path: Path) -> dict[str, Any]:
    try:
        refuse_outside(path, run.folder)  # a page may be passed on, and what else lies on this machine is not to be on it
        return _parsed(path)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        run.problems.append(f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}")
        return {}


def _parsed(path: Path) -> dict[str, Any]:
    """Return the dictionary in a JSON file; a ValueError if the file holds something else."""
    with _opened(path) as file:
        try:
            values = json.load(file)
        except RecursionError:
            values = None
    if not isinstance(values, dict):
        raise ValueError("it does not hold a dictionary")
    try:
        deque(leaves(values), maxlen=0)
    except ValueError:
        raise ValueError(f"it is nested more than {DEEPEST} deep") from None
    return values


def _opened(path: Path, errors: str = "strict") -> TextIO:
    """Open a regular file; reading anything else, such as a pipe, could block for ever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(0, "it is not a file")
    return path.open(encoding="utf-8", errors=errors)


def _is_number(value: object) -> bool:
    """Return whether a value is a number that a float can hold; True and False are not."""
    return isinstance(value, float) or (type(value) is int and value.bit_length() < 64)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


SUMMARY: dict[str, Callable[[object], bool]] = {
    "state": lambda value: isinstance(value, str),
    "error": lambda value: isinstance(value, str),
    "overrides": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "iteration": _is_count,
    "job": _is_count,
    "wall_s": _is_number,
    "last": lambda value: isinstance(value, dict),
}
"""What the keys of summary.json must be; others may be anything."""


def job_number(folder: Path) -> int:
    """Return the number that the name of a job's folder begins with; a large one for any other folder."""
    number = folder.name.partition("_")[0]
    return int(number) if number.isdecimal() else 10**9
