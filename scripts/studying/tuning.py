"""Which rate, and which coefficient of its own, a strategy is compared with."""

import math
from collections import defaultdict
from pathlib import Path

from ganexp.cli.sweeping.results import results

Candidate = tuple[str, ...]
"""Overrides, such as `optimizer.lr=5e-4`."""


def tuned(folder: Path, loss: str, metric: str) -> Candidate:
    """Return the candidate whose mean over the search's seeds is lowest; one that diverged is worse than any that did not.

    Raises:
        ValueError: The loss and the strategy do not fit together: all candidates were skipped.
    """
    figures: dict[Candidate, list[float]] = defaultdict(list)
    reason = ""
    for job in results(folder):
        settings = dict(job["settings"])
        if settings.pop("loss", loss) != loss:  # of a single loss nothing is said
            continue
        settings.pop("seed", None)
        if job["state"] == "skipped":
            reason = job["error"]
            continue
        figure = job["last"].get(metric, math.inf) if job["state"] == "finished" else math.inf
        figure = figure if math.isfinite(figure) else math.inf
        figures[tuple(f"{key}={value}" for key, value in settings.items())].append(figure)
    if not figures:
        raise ValueError(reason)
    return min(figures, key=lambda candidate: sum(figures[candidate]))
