"""How good a run was after so many updates, real images, or seconds."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ganexp.cli.sweeping.results import results
from studying.sweeps import has_diverged


@dataclass(frozen=True)
class Course:
    """A run, judged at some iterations: the figures there, and the real images that had been seen. None if it diverged."""

    seed: str
    iterations: tuple[int, ...]
    images: tuple[int, ...]
    figures: tuple[float, ...]
    diverged: bool = False

    def at_iteration(self, iteration: float) -> float:
        """Return the figure at an iteration, on a straight line between those where it was taken; infinite if it diverged."""
        return self._read(self.iterations, iteration)

    def at_images(self, images: float) -> float:
        """Return the figure after so many real images, likewise."""
        return self._read(self.images, images)

    def _read(self, places: tuple[int, ...], place: float) -> float:
        return math.inf if self.diverged else float(np.interp(place, places, self.figures))


def courses(folder: Path, metric: str) -> list[Course]:
    """Read the runs of a comparison back."""
    found = []
    for job in results(folder):
        rows = [row for row in (job["run"].rows if job["run"] else []) if metric in row]
        iterations = tuple(row["progress/iteration"] for row in rows)
        images = tuple(row["progress/real_images"] for row in rows)
        figures = tuple(row[metric] for row in rows)
        diverged = has_diverged(job, folder) or not all(map(math.isfinite, figures))
        found.append(Course(job["settings"].get("seed", "0"), iterations, images, figures, diverged))
    return found
