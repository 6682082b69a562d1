"""The outcomes of a sweep's jobs: how each ended, and their combinations ranked, as text and as CSV."""

import csv
import io
import re
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganexp.cli.sweeping.record import Sweep
from ganexp.documents import atomic_write
from ganexp.facts import UserError
from ganexp.logging import reading as runs
from ganexp.logging.meanings import sentences
from ganexp.logging.reading import RecordedRun
from ganexp.printable import printable

if TYPE_CHECKING:
    from ganexp.compare.ranking import Ranking


@dataclass(frozen=True)
class Results:
    """The outcomes of the jobs of a sweep.

    Args:
        folder: The folder of the sweep.
        sweep: Its record.
        jobs: The run of each job, by its number; one that is missing has the state `missing`.
    """

    folder: Path
    sweep: Sweep
    jobs: dict[int, RecordedRun]

    @classmethod
    def read(cls, folder: Path) -> "Results":
        """Read the jobs of a sweep back from its folder, once."""
        sweep = Sweep.load(folder)
        jobs = {number: RecordedRun(Path(), summary={"state": "missing"}) for number in range(len(sweep.jobs))}
        jobs |= {runs.job_number(path): runs.read(path) for path in runs.find(folder)}
        for number, overrides in enumerate(sweep.jobs):
            jobs[number].summary.setdefault("overrides", [*overrides])
        return cls(folder, sweep, dict(sorted(jobs.items())))

    def settings(self, run: RecordedRun) -> dict[str, str]:
        """Return the settings in which a job differs from the others."""
        return self.sweep.settings(run.summary.get("overrides", ()))

    @property
    def combinations(self) -> list[str]:
        """The name of each job's combination, all settings that differ except the seed: short, unless two would share it."""
        each = [{key: value for key, value in self.settings(run).items() if key != "seed"} for run in self.jobs.values()]
        full = [[f"{key}={value}" for key, value in settings.items()] for settings in each]
        short = [self.sweep.label(settings) for settings in full]
        unlike = len(set(short)) == len({tuple(settings) for settings in full})
        return [name or "all jobs" for name in (short if unlike else map(" ".join, full))]

    def table(self) -> str:
        """Return a line per job with its settings, state, last figures and time, then what the figures are, and the errors."""
        runs_of_jobs = list(self.jobs.values())
        evaluated = [key for run in runs_of_jobs for key in run.last if key.startswith("eval/") or key == self.sweep.metric]
        shown = list(dict.fromkeys(["loss/d", "loss/g", *evaluated]))
        lines = [["job", *self.sweep.differing, "state", *shown, "time"]]
        for number, run in self.jobs.items():
            settings, last, wall_s = self.settings(run), run.last, run.summary.get("wall_s")
            differing = [_shortened(settings.get(key, "")) for key in self.sweep.differing]
            figures = [f"{last[key]:.4g}" if key in last else "" for key in shown]
            lines.append([str(number), *differing, run.state, *figures, "" if wall_s is None else f"{wall_s:.0f} s"])
        text = _aligned(lines)
        measured = dict.fromkeys((key, run.measures[key]) for key in shown for run in runs_of_jobs if key in run.measures)
        text += sentences([(key, measure) for key, measure in measured if measure.basis])
        from ganexp.compare.outcomes import of_one_algorithm  # imports scipy

        text += of_one_algorithm(runs_of_jobs)
        for error in dict.fromkeys(run.error for run in runs_of_jobs if run.error):
            which = {number: run for number, run in self.jobs.items() if run.error == error}
            state = next(iter(which.values())).state
            text.append(f"{', '.join(map(str, which))} {printable(state)}: {printable(error)}")
        return "\n".join(text)

    def rankings(self, metric: str | None = None, direction: str = "auto") -> tuple[list["Ranking"], str]:
        """Return the rankings by a key of the rows, by default the sweep's own metric, and which figures are best.

        Args:
            metric: The key.
            direction: `minimize`, `maximize`, or `auto`: what the sweep was told if the key is its own, else what the key
                declares.
        """
        from ganexp.compare.outcomes import rankings  # imports scipy

        metric = metric or self.sweep.metric
        assert metric, "a ranking is by something"
        if direction == "auto" and metric == self.sweep.metric:
            direction = self.sweep.direction
        names = [f"job {number}" for number in self.jobs]
        return rankings(list(self.jobs.values()), names, self.combinations, metric, direction)

    def ranking_text(self, width: int | None = None) -> str:
        """Return the rankings as text; empty without a metric. Notes are wrapped at the width of the terminal."""
        metric, width = self.sweep.metric, width or shutil.get_terminal_size().columns
        if metric is None:
            return ""
        try:
            return as_text(*self.rankings(), metric, width)
        except UserError as error:
            return textwrap.fill(f"Not ranked: {printable(str(error))}.", width)

    def write_csv(self) -> Path:
        """Write `sweep.csv` into the folder of the sweep: everything about every job, and what its combination reached."""
        rows, columns = [], self._ranking_columns()
        for number, run in self.jobs.items():
            own = {"job": number, "state": run.state, "folder": run.folder.name, "wall_s": run.summary.get("wall_s")}
            rows.append(own | {"error": run.error} | self.settings(run) | run.last | columns.get(number, {}))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows(rows)
        path = self.folder / "sweep.csv"
        with atomic_write(path) as file:
            file.write(text.getvalue().encode(errors="replace"))
        return path

    def _ranking_columns(self) -> dict[int, dict[str, Any]]:
        """Return, by job, what its combination reached: its place, mean, interval and so on; empty without a metric."""
        metric = self.sweep.metric
        if metric is None:
            return {}
        columns: dict[int, dict[str, Any]] = {}
        try:
            found = self.rankings()[0]
        except UserError:  # which `ranking_text` says
            return {}
        for ranking in found:
            for number, place in enumerate(ranking.places, 1):
                of_place: dict[str, Any] = {
                    "key": metric,
                    "combination": place.combination,
                    "basis": ranking.basis if place.values else "",
                }
                if place.values:
                    of_place |= {"place": number, "mean": place.mean}
                if place.interval:
                    of_place |= {"low": place.interval.low, "high": place.interval.high}
                of_place |= {
                    "standing": place.standing,
                    "p": place.p,
                    "seeds": len(place.values),
                    "without_figure": len(place.lost),
                }
                named = {f"ranking/{key}": value for key, value in of_place.items()}
                columns |= {int(run.run.removeprefix("job ")): named for run in place.runs}
        return columns


def as_text(rankings: Sequence["Ranking"], best: str, metric: str, width: int) -> str:
    """Return rankings as text, with notes that are wrapped at a width."""
    from ganexp.compare.ranking import MARKS, notes

    paragraphs = []
    for ranking in rankings:
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
    return "\n\n".join([*paragraphs, "\n".join(textwrap.fill(printable(note), width) for note in notes(rankings))])


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of cells as text, in columns."""
    shown = [[printable(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in shown]


def _shortened(text: str) -> str:
    """Shorten the many decimals of numbers that a search has drawn."""
    return re.sub(r"-?\d+\.\d{5,}(e[+-]?\d+)?", lambda match: f"{float(match[0]):.4g}", text)
