"""What has become of the jobs of a sweep: how each ended, and their combinations ranked, for people and for programs."""

import csv
import io
import re
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganexp.cli.sweeping.record import Sweep
from ganexp.logging import reading as runs
from ganexp.logging.documents import atomic_write
from ganexp.printable import printable

if TYPE_CHECKING:
    from ganexp.compare.ranking import Ranking

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
        if overrides is None:
            overrides = sweep.jobs[number] if number < len(sweep.jobs) else ()
        found[number] = {
            "job": number,
            "state": run.state,
            "folder": path.name,
            "error": run.summary.get("error", ""),
            "wall_s": run.summary.get("wall_s"),
            "settings": sweep.settings(overrides),
            "last": run.last,
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


def table(folder: Path) -> str:
    """Return a line per job with its settings, state, last figures and time, then what the figures are, and the errors."""
    jobs, sweep = results(folder), Sweep.load(folder)
    evaluated = [key for job in jobs for key in job["last"] if key.startswith("eval/") or key == sweep.metric]
    shown = list(dict.fromkeys(["loss/d", "loss/g", *evaluated]))
    header = ["job", *sweep.differing, "state", *shown, "time"]
    lines = [
        [
            str(job["job"]),
            *(_shortened(job["settings"].get(key, "")) for key in sweep.differing),
            job["state"],
            *(f"{job['last'][key]:.4g}" if key in job["last"] else "" for key in shown),
            f"{job['wall_s']:.0f} s" if job["wall_s"] is not None else "",
        ]
        for job in jobs
    ]
    text = _aligned([header, *lines])
    measured = [(key, job["run"].measures.get(key)) for key in shown for job in jobs if job["run"]]
    text += dict.fromkeys(f"{key}: {measure.meaning}." for key, measure in measured if measure and measure.basis)
    for error in dict.fromkeys(job["error"] for job in jobs if job["error"]):
        which = [job for job in jobs if job["error"] == error]
        text.append(f"{', '.join(str(job['job']) for job in which)} {printable(which[0]['state'])}: {printable(error)}")
    return "\n".join(text)


def rankings(folder: Path, metric: str | None = None, direction: str = "auto") -> tuple[list["Ranking"], str]:
    """Return the rankings of a sweep by a key of the rows, by default its own metric, and which figures are best.

    A combination is all settings that differ except the seed.

    Args:
        folder: The folder of the sweep.
        metric: The key.
        direction: `minimize`, `maximize`, or `auto`: what the sweep was told if the key is its own, else what the key declares.
    """
    from ganexp.compare import outcomes  # imports scipy
    from ganexp.compare.ranking import Outcome, ranked

    sweep, jobs = Sweep.load(folder), results(folder)
    metric = metric or sweep.metric
    assert metric, "a ranking is by something"
    found = [job["run"] for job in jobs if job["run"]]
    basis = dict(zip(map(id, found), outcomes.bases(found, metric), strict=True))
    if direction == "auto" and metric == sweep.metric:
        direction = sweep.direction
    each = []
    for job, name in zip(jobs, combinations(sweep, jobs), strict=True):
        number, run = f"job {job['job']}", job["run"]
        lost = Outcome(number, name, job["settings"].get("seed", ""), reason=job["state"])
        each.append(outcomes.outcome(run, number, name, metric, basis[id(run)]) if run else lost)
    best = outcomes.best_of(found, metric, direction)
    return ranked(each, best), best


def combinations(sweep: Sweep, jobs: list[Result]) -> list[str]:
    """Return the name of each job's combination: short, unless two combinations would then share a name."""
    settings = [{key: value for key, value in job["settings"].items() if key != "seed"} for job in jobs]
    full = [[f"{key}={value}" for key, value in one.items()] for one in settings]
    short = [sweep.label(one) for one in full]
    unlike = len(set(short)) == len({tuple(one) for one in full})
    return [name or "all jobs" for name in (short if unlike else map(" ".join, full))]


def ranking_text(folder: Path, width: int | None = None) -> str:
    """Return the rankings of a sweep as text; empty if it has no metric. Notes are wrapped at the width of the terminal."""
    metric = Sweep.load(folder).metric
    return "" if metric is None else as_text(*rankings(folder), metric, width or shutil.get_terminal_size().columns)


def as_text(found: Sequence["Ranking"], best: str, metric: str, width: int) -> str:
    """Return rankings as text, with notes that are wrapped at a width."""
    from ganexp.compare.ranking import MARKS, notes

    paragraphs = []
    for ranking in found:
        if not any(place.values for place in ranking.places):
            paragraphs.append(f"Nothing to rank: no finished job has a finite {metric} in its last row.")
            continue
        header = ["", "combination", "seeds", f"{metric} [95 %]", "p"]
        lines = [
            [MARKS.get(place.standing, ""), _shortened(place.combination), place.seeds, place.figure, place.verdict]
            for place in ranking.places
        ]
        of = f"; {ranking.basis}" if ranking.basis else ""
        paragraphs.append("\n".join([f"Ranked by {metric}, {best} first{of}", *_aligned([header, *lines])]))
    return "\n\n".join([*paragraphs, "\n".join(textwrap.fill(printable(note), width) for note in notes(found))])


def write_csv(folder: Path) -> Path:
    """Write `sweep.csv` into the folder of a sweep: everything about every job, and what its combination reached."""
    rows, columns = [], _ranking_columns(folder)
    for job in results(folder):
        own = {key: job[key] for key in ("job", "state", "folder", "wall_s", "error")} | job["settings"] | job["last"]
        rows.append(own | columns.get(job["job"], {}))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    writer.writerows(rows)
    path = folder / "sweep.csv"
    with atomic_write(path) as file:
        file.write(text.getvalue().encode(errors="replace"))
    return path


def _ranking_columns(folder: Path) -> dict[int, dict[str, Any]]:
    """Return, by job, what its combination reached: its place, mean, interval and so on; empty without a metric."""
    metric = Sweep.load(folder).metric
    if metric is None:
        return {}
    columns: dict[int, dict[str, Any]] = {}
    for ranking in rankings(folder)[0]:
        for number, place in enumerate(ranking.places, 1):
            said: dict[str, Any] = {
                "key": metric,
                "combination": place.combination,
                "basis": ranking.basis if place.values else "",
            }
            if place.values:
                said |= {"place": number, "mean": place.mean}
            if place.interval:
                said |= {"low": place.interval.low, "high": place.interval.high}
            said |= {"standing": place.standing, "p": place.p, "seeds": len(place.values), "without_figure": len(place.lost)}
            named = {f"ranking/{key}": value for key, value in said.items()}
            columns |= {int(run.run.removeprefix("job ")): named for run in place.runs}
    return columns


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of cells as text, in columns."""
    shown = [[printable(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in shown]


def _shortened(text: str) -> str:
    """Shorten the many decimals of numbers that a search has drawn."""
    return re.sub(r"-?\d+\.\d{5,}(e[+-]?\d+)?", lambda found: f"{float(found[0]):.4g}", text)
