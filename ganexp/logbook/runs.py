"""Run folders read back: finished, unfinished or broken."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Run:
    """What a run folder holds. Whatever cannot be read is told in `problems`, and the rest is kept."""

    folder: Path
    rows: list[dict[str, Any]] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def state(self) -> str:
        """`finished`, `failed`, `skipped`, or `unfinished` for one that is running or was killed."""
        return str(self.summary.get("state", "unfinished"))

    @property
    def wandb_id(self) -> str | None:
        """The id of its W&B run, if it has one."""
        try:
            return (self.folder / "wandb_id").read_text().strip() or None
        except OSError:
            return None

    @property
    def overrides(self) -> dict[str, str]:
        """What a job of a sweep was given on its command line, known even of one that was skipped."""
        given = self.summary.get("overrides", [])
        return dict(str(one).lstrip("+").split("=", 1) for one in given if "=" in str(one))

    @property
    def last(self) -> dict[str, Any]:
        """The last value of every key, pictures excepted."""
        return {key: value for row in self.rows for key, value in row.items() if not isinstance(value, str)}


def is_run(folder: Path) -> bool:
    """Say whether a folder looks like a run's."""
    return any((folder / name).exists() for name in ("metrics.jsonl", "summary.json", "config.json"))


def find(folder: Path) -> list[Path]:
    """Return the run folders at or directly below a folder, jobs of a sweep in the order of their numbers."""
    if is_run(folder):
        return [folder]
    below = (path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()) if folder.is_dir() else ()
    return sorted((path for path in below if is_run(path)), key=_job_number)


def read(folder: Path) -> Run:
    """Read a run folder; never fails because of what is, or is not, in it."""
    run = Run(folder)
    run.config, run.summary = _read_json(run, "config.json"), _read_json(run, "summary.json")
    try:
        lines = (folder / "metrics.jsonl").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
        if run.state not in ("skipped", "failed"):
            run.problems.append("metrics.jsonl is not there")
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if isinstance(row, dict) and isinstance(row.get("progress/iteration"), int):
            run.rows.append(row)
        else:
            run.problems.append(f"metrics.jsonl, line {number}, is no row")
    return run


def read_document(path: Path) -> dict[str, Any]:
    """Read one of a run folder's JSON files, such as summary.json; empty if it is not there or broken."""
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _read_json(run: Run, name: str) -> dict[str, Any]:
    try:
        values = json.loads((run.folder / name).read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        run.problems.append(f"{name} cannot be read: {error}")
        return {}
    if isinstance(values, dict):
        return values
    run.problems.append(f"{name} holds no dictionary")
    return {}


def _job_number(path: Path) -> tuple[int, str]:
    number = path.name.partition("_")[0]
    return (int(number) if number.isdigit() else 10**9, path.name)
