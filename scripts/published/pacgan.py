"""PacGAN's trials: what each one is, where its figures are kept, and their means beside the published ones."""

import csv
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ganexp.cli.commands.pages.machine import machine
from ganexp.cli.commands.pages.markdown import table

PUBLISHED = {
    ("ring", 1): "6.3 ± 0.5",
    ("ring", 2): "7.9 ± 0.1",
    ("grid", 1): "17.3 ± 0.8",
    ("grid", 2): "23.8 ± 0.7",
}
"""Modes of GAN and PacGAN2: mean and standard error of ten trials (Lin et al. 2018, table 1)."""


class Trial(NamedTuple):
    """One run: its data, how many samples D scores together, and its seed."""

    data: str
    pack: int
    seed: int

    @property
    def overrides(self) -> tuple[str, ...]:
        """As for `train.py`."""
        return (f"experiment=pacgan_{self.data}", f"pack={self.pack}", f"seed={self.seed}", "logger=[]", "device=cpu")


def results(path: Path) -> dict[Trial, list[float]]:
    """Return what is in the file."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {Trial(row[0], int(row[1]), int(row[2])): [float(one) for one in row[3:6]] for row in rows}


def summary(found: dict[Trial, list[float]]) -> str:
    """Return the table of means and standard errors."""
    rows = means(found)
    return table(rows) if rows else "No trial has ended yet."


def means(found: dict[Trial, list[float]]) -> list[dict[str, str]]:
    """Return the rows of the table."""
    rows = []
    for (data, pack), published in PUBLISHED.items():
        own = np.array([figures for trial, figures in found.items() if (trial.data, trial.pack) == (data, pack)])
        if len(own):
            modes, quality, divergence = own.T
            rows.append(
                {
                    "data": data,
                    "packs of": str(pack),
                    "trials": str(len(own)),
                    "modes": _mean(modes, 1),
                    "published": published,
                    "of high quality": f"{_mean(100 * quality, 1)} %",
                    "KL divergence": _mean(divergence, 2),
                }
            )
    return rows


def _mean(values: np.ndarray, digits: int) -> str:
    """Return the mean, with its standard error if there are several values."""
    mean = f"{values.mean():.{digits}f}"
    return f"{mean} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}" if len(values) > 1 else mean


def append(path: Path, trial: Trial, figures: Sequence[float]) -> None:
    """Write down the figures of a trial that has ended."""
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(["data", "pack", "seed", "modes", "high_quality", "mode_kl", "machine"])
        writer.writerow([*trial, *figures, f"{date.today()}, {machine()}"])
