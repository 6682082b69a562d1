"""The combinations of a sweep, ranked by `sweep.metric`: for people, and as columns for programs."""

import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganexp.cli.sweeping.record import Sweep
from ganexp.cli.sweeping.results import Result, aligned, results, shortened
from ganexp.printable import printable

if TYPE_CHECKING:
    from ganexp.compare.ranking import Ranking


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
            [MARKS.get(place.standing, ""), shortened(place.combination), place.seeds, place.figure, place.verdict]
            for place in ranking.places
        ]
        of = f"; {ranking.basis}" if ranking.basis else ""
        paragraphs.append("\n".join([f"Ranked by {metric}, {best} first{of}", *aligned([header, *lines])]))
    return "\n\n".join([*paragraphs, "\n".join(textwrap.fill(printable(note), width) for note in notes(found))])


def ranking_columns(folder: Path) -> dict[int, dict[str, Any]]:
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
