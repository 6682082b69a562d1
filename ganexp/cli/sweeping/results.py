"""How the jobs of a sweep ended, as a table for people and one for programs."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ganexp.cli.sweeping.record import Sweep
from ganexp.logging import reading as runs
from ganexp.logging.documents import atomic_write
from ganexp.printable import printable

Result = dict[str, Any]
"""One job: `job`, `state`, `folder`, `error`, `wall_s`, `settings` (what differs), `last` (the last value of each key),
`run` (as it was read back; None if it is missing)."""


def results(folder: Path) -> list[Result]:
    """Read the jobs of a sweep back from its folder, the missing ones included."""
    sweep = Sweep.load(folder)
    found: dict[int, Result] = {}
    for path in runs.find(folder):
        run = runs.read(path)
        number, overrides = runs.job_number(path), run.summary.get("overrides")
        if not isinstance(overrides, list):
            overrides = sweep.jobs[number] if number < len(sweep.jobs) else ()
        found[number] = {
            "job": number,
            "state": run.state,
            "folder": path.name,
            "error": str(run.summary.get("error", "")),
            "wall_s": _if_number(run.summary.get("wall_s")),
            "settings": sweep.settings([str(override) for override in overrides]),
            "last": {key: value for key, value in run.last.items() if _if_number(value) is not None},
            "run": run,
        }
    for number, overrides in enumerate(sweep.jobs):
        missing = {"job": number, "state": "missing", "folder": "", "error": "", "wall_s": None, "last": {}, "run": None}
        found.setdefault(number, missing | {"settings": sweep.settings(overrides)})
    return [found[number] for number in sorted(found)]


def has_a_value(folder: Path) -> bool:
    """Return whether a finished job of a search has logged what it optimises."""
    metric = Sweep.load(folder).metric
    return any(job["state"] == "finished" and metric in job["last"] for job in results(folder))


def write_csv(folder: Path, columns: Mapping[int, Mapping[str, Any]] | None = None) -> Path:
    """Write `sweep.csv` into the folder of a sweep: everything about every job, one line each, with further columns by job."""
    rows = []
    for job in results(folder):
        own = {key: job[key] for key in ("job", "state", "folder", "wall_s", "error")} | job["settings"] | job["last"]
        rows.append({**own, **(columns or {}).get(job["job"], {})})
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    writer.writerows(rows)
    path = folder / "sweep.csv"
    with atomic_write(path) as file:
        file.write(text.getvalue().encode(errors="replace"))
    return path


def table(folder: Path) -> str:
    """Return a line per job with its settings, state, last figures and time, then what the figures are, and the errors."""
    jobs, sweep = results(folder), Sweep.load(folder)
    evaluated = [key for job in jobs for key in job["last"] if key.startswith("eval/") or key == sweep.metric]
    shown = list(dict.fromkeys(["loss/d", "loss/g", *evaluated]))
    header = ["job", *sweep.differing, "state", *shown, "time"]
    lines = [
        [
            str(job["job"]),
            *(shortened(job["settings"].get(key, "")) for key in sweep.differing),
            job["state"],
            *(f"{job['last'][key]:.4g}" if key in job["last"] else "" for key in shown),
            f"{job['wall_s']:.0f} s" if job["wall_s"] is not None else "",
        ]
        for job in jobs
    ]
    text = aligned([header, *lines])
    measured = [(key, job["run"].measures.get(key)) for key in shown for job in jobs if job["run"]]
    text += dict.fromkeys(f"{key}: {measure.meaning}." for key, measure in measured if measure and measure.basis)
    for error in dict.fromkeys(job["error"] for job in jobs if job["error"]):
        which = [job for job in jobs if job["error"] == error]
        text.append(f"{', '.join(str(job['job']) for job in which)} {printable(which[0]['state'])}: {printable(error)}")
    return "\n".join(text)


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of cells as text, in columns."""
    shown = [[printable(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in shown]


def _if_number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) else None


def shortened(text: str) -> str:
    """Shorten the many decimals of numbers that a search has drawn."""
    return re.sub(r"-?\d+\.\d{5,}(e[+-]?\d+)?", lambda found: f"{float(found[0]):.4g}", text)
