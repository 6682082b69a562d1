"""PacGAN's trials: their settings, the file of their figures, and their means beside the published ones."""

import itertools
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from benching import rows
from ganexp.cli.pages.machine import machine
from ganexp.compare.ranking import ALPHA
from measuring.markdown import table

PUBLISHED = {
    ("ring", 1): ((6.3, 0.5), (98.2, 0.2), (0.45, 0.09)),
    ("ring", 2): ((7.9, 0.1), (95.6, 2.0), (0.07, 0.03)),
    ("grid", 1): ((17.3, 0.8), (94.8, 0.7), (0.70, 0.07)),
    ("grid", 2): ((23.8, 0.7), (91.3, 0.8), (0.13, 0.04)),
}
"""Modes, samples of high quality in percent and KL divergence of GAN and PacGAN2 after `EPOCHS`: mean and standard error of
`TRIALS` trials (Lin et al. 2018, table 1)."""
# MKL takes slower kernels on AMD's processors. The trials in docs/packing.csv were run with a preloaded library whose
# mkl_serv_intel_cpu_true returns 1, those with a β₁ of 0.8 from their 20th epoch on: an iteration took 17.0 instead of 21.7 ms
# on one core of an AMD EPYC (torch 2.14.1, 2026-11-24).
EPOCHS, TRIALS = 400, 10
UNITS = {"modes": (1, 1), "of high quality, %": (100, 1), "KL divergence": (1, 2)}
"""By what each figure is multiplied for the table, and its number of decimals."""
READINGS = (0.2, 0.8)
"""What the authors' `beta1` of 0.8 may mean as Adam's β₁: 0.2, since in Blocks it was the share of the new gradient in the mean
until January 2017, or 0.8, the share of the past. Their code names no version of Blocks."""
COLUMNS = ("data", "pack", "seed", "beta", "epochs", "modes", "high_quality", "mode_kl", "machine")
COLOURS = {1: "tab:blue", 2: "tab:orange"}
LINES = dict(zip(READINGS, ("-", ":"), strict=True))


class Trial(NamedTuple):
    """One run: its data, how many samples D scores together, its seed, and Adam's β₁."""

    data: str
    pack: int
    seed: int
    beta: float = READINGS[0]

    @property
    def overrides(self) -> tuple[str, ...]:
        """As for `train.py`."""
        chosen = (f"experiment=pacgan_{self.data}", f"pack={self.pack}", f"seed={self.seed}")
        return (*chosen, f"optimizer.betas=[{self.beta},0.999]", "logger=[]", "device=cpu")


class Figures(NamedTuple):
    """The figures of a trial at an evaluation."""

    modes: float
    high_quality: float
    divergence: float


Course = Mapping[int, Figures]
"""The evaluations of a trial, by the number of epochs before them."""


def results(path: Path) -> dict[Trial, dict[int, Figures]]:
    """Return the courses that are in the file.

    Raises:
        ValueError: The file has something else in it.
    """
    found: dict[Trial, dict[int, Figures]] = {}
    for row in rows.read(path, COLUMNS):
        trial = Trial(row[0], int(row[1]), int(row[2]), float(row[3]))
        found.setdefault(trial, {})[int(row[4])] = Figures(*map(float, row[5:8]))
    return found


def append(path: Path, trial: Trial, course: Course) -> None:
    """Append the evaluations of a trial that are not in the file yet."""
    there = results(path).get(trial, {})
    made_on = f"{date.today()}, {machine()}"
    fresh = [[*trial, epochs, *figures, made_on] for epochs, figures in course.items() if epochs not in there]
    rows.append(path, COLUMNS, fresh)


def summary(found: Mapping[Trial, Course]) -> str:
    """Return the table of means and standard errors."""
    told = means(found)
    return table(told) if told else "No trial has ended yet."


def means(found: Mapping[Trial, Course]) -> list[dict[str, str]]:
    """Return the rows of the table: each at the largest number of epochs at which all its trials have been evaluated."""
    told = []
    for (data, pack), beta in itertools.product(PUBLISHED, READINGS):
        courses = _courses(found, data, pack, beta)
        common = _common(courses)
        if common:
            row = {
                "data": data,
                "packs of": str(pack),
                "β₁": str(beta),
                "trials": str(len(courses)),
                "epochs": str(common[-1]),
            }
            figures = np.array([course[common[-1]] for course in courses]).T
            for (name, (unit, digits)), values, published in zip(UNITS.items(), figures, PUBLISHED[data, pack], strict=True):
                star = "*" if p_of(unit * values, published) < ALPHA else ""
                beside = "{:.{digits}f} ± {:.{digits}f}".format(*published, digits=digits)
                row[f"{name} (published)"] = f"{_mean(unit * values, digits)}{star} ({beside})"
            told.append(row)
    return told


def p_of(values: np.ndarray, published: tuple[float, float]) -> float:
    """Return the p of Welch's test of trials against a published mean and standard error; NaN for a single trial."""
    mean, error = published
    spreads = np.std(values, ddof=1) if len(values) > 1 else np.nan, error * np.sqrt(TRIALS)
    test = stats.ttest_ind_from_stats(values.mean(), spreads[0], len(values), mean, spreads[1], TRIALS, equal_var=False)
    return float(test.pvalue)


def drawn(found: Mapping[Trial, Course]) -> Figure:
    """Draw modes and samples of high quality over the epochs: every trial, the means, and the published figures."""
    figure = Figure(figsize=(9, 5.4), layout="constrained")
    for column, data in zip(figure.subplots(2, 2, sharex="col").T, dict.fromkeys(data for data, _ in PUBLISHED), strict=True):
        for (pack, colour), (beta, line) in itertools.product(COLOURS.items(), LINES.items()):
            courses = _courses(found, data, pack, beta)
            common = _common(courses)
            name = f"{f'PacGAN{pack}' if pack > 1 else 'GAN'}, β₁ = {beta}"
            for axes, at, unit in ((column[0], 0, 1), (column[1], 1, 100)):
                for course in courses:
                    axes.plot(
                        [*course], [unit * one[at] for one in course.values()], line, color=colour, linewidth=0.7, alpha=0.5
                    )
                means = [unit * np.mean([course[epochs][at] for course in courses]) for epochs in common]
                if common:
                    axes.plot(common, means, line, color=colour, linewidth=2.2, label=name)
        for axes in column:
            axes.grid(alpha=0.3)
        for pack, colour in COLOURS.items():
            for axes, (mean, error) in zip(column, PUBLISHED[data, pack][:2], strict=True):
                axes.axhline(mean, color=colour, linestyle="--", linewidth=1)
                axes.axhspan(mean - error, mean + error, color=colour, alpha=0.1)
        column[0].set(title=data, ylabel="modes covered", ylim=(0, 1.08 * column[0].get_ylim()[1]))
        column[1].set(xlabel="epochs", ylabel="samples of high quality, %", ylim=(0, 100), xlim=(0, None))
        column[0].legend(loc="lower right")
    return figure


def _courses(found: Mapping[Trial, Course], data: str, pack: int, beta: float) -> list[Course]:
    return [course for trial, course in found.items() if (trial.data, trial.pack, trial.beta) == (data, pack, beta)]


def _common(courses: list[Course]) -> list[int]:
    """Return after how many epochs all the trials have been evaluated."""
    return sorted(set.intersection(*(set(course) for course in courses))) if courses else []


def _mean(values: np.ndarray, digits: int) -> str:
    """Return the mean, with its standard error if there are several values."""
    mean = f"{values.mean():.{digits}f}"
    return f"{mean} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}" if len(values) > 1 else mean
