"""What a job of a sweep costs beside its training."""

import contextlib
import os
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.section import Section
from ganexp import build
from ganexp.cli.composing import compose
from ganexp.cli.line import Line
from ganexp.cli.sweep import sweep
from ganexp.compare.intervals import of_ratio
from measuring.markdown import table

COUNT = 10
WORDS = ("experiment=ring", "iterations=200", "threads=1", "device=cpu", "logger=[]")


def jobs(turns: int) -> Section:
    """Train the same runs in turn as jobs of a sweep and in one loop, in this process, and compare their CPU times."""
    times: dict[str, list[float]] = {"one loop": [], "a sweep": []}
    with tempfile.TemporaryDirectory() as place, open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        for turn in range(-1, turns):  # the first turn imports
            for name, train in (("one loop", _loop), ("a sweep", _sweep)):
                before_s = time.process_time()
                train(Path(place) / f"{name.split()[1]}{turn}")
                times[name].append((time.process_time() - before_s) / COUNT)
    rows = [
        {
            "what": name,
            "CPU s per run": statistics.median(found[1:]),
            "over one loop": of_ratio(found[1:], times["one loop"][1:]),
        }
        for name, found in times.items()
    ]
    return Section(
        "Jobs of a sweep",
        f"`{' '.join(WORDS)}` with {COUNT} seeds, as jobs of a sweep, each of which is composed, checked and recorded by "
        "itself, and in one loop over `build(cfg, folder).fit()` with a configuration that is composed once. These are CPU "
        "times.\n\n" + table(rows),
    )


def _loop(folder: Path) -> None:
    cfg = compose(*WORDS)
    for seed in range(COUNT):
        cfg.seed = seed
        build(cfg, folder / str(seed)).fit()


def _sweep(folder: Path) -> None:
    sweep(Line((*WORDS, f"seed=range({COUNT})", f"hydra.sweep.dir={folder}"), sweeps=True))
