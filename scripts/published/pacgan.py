"""PacGAN's trials: what each one is, where its figures are kept, and their means beside the published ones."""

import csv
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ganexp.cli.commands.pages.machine import machine
from ganexp.cli.commands.pages.markdown import table

PUBLISHED = {
    ("ring", 1): (6.3, 0.5),
    ("ring", 2): (7.9, 0.1),
    ("grid", 1): (17.3, 0.8),
    ("grid", 2): (23.8, 0.7),
}
"""Modes of GAN and PacGAN2 after `EPOCHS`: mean and standard error of ten trials (Lin et al. 2018, table 1)."""
EPOCHS = 400
COLOURS = {1: "tab:blue", 2: "tab:orange"}


class Trial(NamedTuple):
    """One run: its data, how many samples D scores together, and its seed."""

    data: str
    pack: int
    seed: int

    @property
    def overrides(self) -> tuple[str, ...]:
        """As for `train.py`."""
        return (f"experiment=pacgan_{self.data}", f"pack={self.pack}", f"seed={self.seed}", "logger=[]", "device=cpu")


class Figures(NamedTuple):
    """What a trial had reached at an evaluation."""

    modes: float
    high_quality: float
    divergence: float


Course = Mapping[int, Figures]
"""The evaluations of a trial, by the number of epochs before them."""


def results(path: Path) -> dict[Trial, dict[int, Figures]]:
    """Return the courses that are in the file."""
    found: dict[Trial, dict[int, Figures]] = {}
    if path.exists():
        with path.open(newline="") as file:
            for row in list(csv.reader(file))[1:]:
                trial = Trial(row[0], int(row[1]), int(row[2]))
                found.setdefault(trial, {})[int(row[3])] = Figures(*map(float, row[4:7]))
    return found


def append(path: Path, trial: Trial, course: Course) -> None:
    """Write down the evaluations of a trial that are not in the file."""
    there = results(path).get(trial, {})
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(["data", "pack", "seed", "epochs", "modes", "high_quality", "mode_kl", "machine"])
        for epochs, figures in course.items():
            if epochs not in there:
                writer.writerow([*trial, epochs, *figures, f"{date.today()}, {machine()}"])


def summary(found: Mapping[Trial, Course]) -> str:
    """Return the table of means and standard errors."""
    rows = means(found)
    return table(rows) if rows else "No trial has ended yet."


def means(found: Mapping[Trial, Course]) -> list[dict[str, str]]:
    """Return the rows of the table: each at the largest number of epochs at which all its trials have been evaluated."""
    rows = []
    for (data, pack), published in PUBLISHED.items():
        courses = _courses(found, data, pack)
        common = _common(courses)
        if common:
            modes, quality, divergence = np.array([course[common[-1]] for course in courses]).T
            rows.append(
                {
                    "data": data,
                    "packs of": str(pack),
                    "trials": str(len(courses)),
                    "epochs": str(common[-1]),
                    "modes": _mean(modes, 1),
                    f"published, {EPOCHS} epochs": "{:.1f} ± {:.1f}".format(*published),
                    "of high quality": f"{_mean(100 * quality, 1)} %",
                    "KL divergence": _mean(divergence, 2),
                }
            )
    return rows


def drawn(found: Mapping[Trial, Course]) -> Figure:
    """Draw modes and samples of high quality over the epochs: every trial, the means, and the published figures."""
    figure = Figure(figsize=(9, 5.4), layout="constrained")
    for column, data in zip(figure.subplots(2, 2, sharex="col").T, dict.fromkeys(data for data, _ in PUBLISHED), strict=True):
        for pack, colour in COLOURS.items():
            courses = _courses(found, data, pack)
            common = _common(courses)
            for axes, at, unit in ((column[0], 0, 1), (column[1], 1, 100)):
                for course in courses:
                    axes.plot([*course], [unit * one[at] for one in course.values()], color=colour, linewidth=0.7, alpha=0.5)
                means = [unit * np.mean([course[epochs][at] for course in courses]) for epochs in common]
                axes.plot(common, means, color=colour, linewidth=2.2, label=f"PacGAN{pack}" if pack > 1 else "GAN")
                axes.grid(alpha=0.3)
            mean, error = PUBLISHED[data, pack]
            column[0].axhline(mean, color=colour, linestyle="--", linewidth=1)
            column[0].axhspan(mean - error, mean + error, color=colour, alpha=0.1)
        column[0].set(title=data, ylabel="modes covered", ylim=(0, 1.08 * column[0].get_ylim()[1]))
        column[1].set(xlabel="epochs", ylabel="samples of high quality, %", ylim=(0, 100), xlim=(0, None))
        column[0].legend(loc="lower right")
    return figure


def _courses(found: Mapping[Trial, Course], data: str, pack: int) -> list[Course]:
    return [course for trial, course in found.items() if (trial.data, trial.pack) == (data, pack)]


def _common(courses: list[Course]) -> list[int]:
    """Return after how many epochs all the trials have been evaluated."""
    return sorted(set.intersection(*(set(course) for course in courses))) if courses else []


def _mean(values: np.ndarray, digits: int) -> str:
    """Return the mean, with its standard error if there are several values."""
    mean = f"{values.mean():.{digits}f}"
    return f"{mean} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}" if len(values) > 1 else mean
