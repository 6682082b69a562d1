"""Does packing find modes? PacGAN's experiments on ring and grid at their own settings, beside the published figures.

    python scripts/packing.py --trials 3      # GAN and PacGAN2 on both, three seeds each: twelve runs of two hours and more
    python scripts/packing.py --table         # only the table of what there is

A trial that has ended is a line of docs/packing.csv and is not run again; one that was stopped goes on from its checkpoint.
"""

if __name__ == "__main__":
    from ganexp.cli import interrupting, quiet

    interrupting.at_once()  # while torch is imported
    quiet.wait_quietly()

import argparse
import csv
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ganexp.cli.commands.pages.machine import machine
from ganexp.cli.commands.pages.markdown import table
from ganexp.cli.commands.pages.writing import writing
from ganexp.logging.documents import refuse_unwritable
from ganexp.logging.layout import RunFolder
from ganexp.logging.reading import read
from ganexp.printable import printable

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED = {
    ("ring", 1): "6.3 ± 0.5",
    ("ring", 2): "7.9 ± 0.1",
    ("grid", 1): "17.3 ± 0.8",
    ("grid", 2): "23.8 ± 0.7",
}
"""Modes of GAN and PacGAN2: mean and standard error of ten trials (Lin et al. 2018, table 1)."""
FIGURES = ("eval/modes", "eval/high_quality", "eval/mode_kl")


class Trial(NamedTuple):
    """One run: its data, how many samples D scores together, and its seed."""

    data: str
    pack: int
    seed: int

    @property
    def overrides(self) -> tuple[str, ...]:
        """As for `train.py`."""
        return (f"experiment=pacgan_{self.data}", f"pack={self.pack}", f"seed={self.seed}", "logger=[]", "device=cpu")


def main(arguments: Sequence[str] | None = None) -> str:
    """Run what is missing, print the table of all trials, and return it."""
    options = _parser().parse_args(arguments)
    with writing(options.results, "name another place with --results"):
        refuse_unwritable(options.results)
    wanted = [Trial(data, pack, seed) for seed in range(options.trials) for data, pack in PUBLISHED]
    missing = [] if options.table else [trial for trial in wanted if trial not in results(options.results)]
    with ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(run, trial, options.folder, tuple(options.further)): trial for trial in missing}
        for done in as_completed(running):
            try:
                _append(options.results, running[done], done.result())
            except RuntimeError as error:
                pool.shutdown(cancel_futures=True)
                sys.exit(f"Error: {printable(error)}.")
            print(f"{len(results(options.results))} trials of {len(wanted)} have ended.", flush=True)
    said = summary(results(options.results))
    print(said)
    return said


def run(trial: Trial, folder: Path, further: tuple[str, ...] = ()) -> list[float]:
    """Run a trial, or go on with it, and return its modes, share of samples of high quality, and divergence at the end.

    Raises:
        RuntimeError: It did not finish.
    """
    place = (folder / f"{trial.data}-{trial.pack}-{trial.seed}").resolve()
    begun = RunFolder(place).last.exists()
    train([f"resume={place}"] if begun else [*trial.overrides, *further, f"hydra.run.dir={place}"])
    ended = read(place) if place.is_dir() else None
    if ended is None or ended.state != "finished":
        raise RuntimeError(f"{place} did not finish; its train.log says why")
    return [float(ended.rows[-1][key]) for key in FIGURES]


def train(words: Sequence[str]) -> None:
    """Call `train.py`."""
    subprocess.run([sys.executable, str(ROOT / "train.py"), *words], cwd=ROOT, stdin=subprocess.DEVNULL, check=False)


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


def _append(path: Path, trial: Trial, figures: Sequence[float]) -> None:
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(["data", "pack", "seed", "modes", "high_quality", "mode_kl", "machine"])
        writer.writerow([*trial, *figures, f"{date.today()}, {machine()}"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3, choices=range(1, 11), metavar="N", help="seeds of each (default 3)")
    parser.add_argument("--jobs", type=int, default=2, choices=range(1, 65), metavar="N", help="trials at a time (default 2)")
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "packing.csv", help="default docs/packing.csv")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "outputs" / "packing", help="of the runs (default outputs/packing)"
    )
    parser.add_argument("--further", nargs="+", default=[], metavar="KEY=VALUE", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    interrupting.run(main)
