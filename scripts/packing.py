"""Does packing find modes? PacGAN's experiments on ring and grid at their own settings, beside the published figures.

    python scripts/packing.py                 # GAN and PacGAN2 on both, three seeds each, 400 epochs: more than a day of a core
    python scripts/packing.py --epochs 40     # their first tenth; more epochs go on from there
    python scripts/packing.py --beta 0.8      # with the other reading of the authors' beta1
    python scripts/packing.py --table         # only the table and the picture of what there is

Every evaluation of a trial is a line of docs/packing.csv, and a trial that has the epochs asked for is not run again. A trial
that was stopped, or ran for fewer epochs, goes on from its checkpoint, and ends as if it had never been stopped. One that was
killed before its first checkpoint begins again.
"""

if __name__ == "__main__":
    from ganexp.cli import process

    process.begin()  # while torch is imported

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from ganexp.documents import refuse_unwritable
from ganexp.printable import printable
from published import trials
from published.pacgan import EPOCHS, PUBLISHED, READINGS, Figures, Trial, append, drawn, results, summary

ROOT = trials.ROOT
ITERATIONS = 1000
"""Iterations of an epoch, as the authors' code counts them."""


def main(arguments: Sequence[str] | None = None) -> str:
    """Run what is missing, draw all trials, print the table of them, and return it."""
    options = _parser().parse_args(arguments)
    picture = options.results.with_suffix(".png")
    for path in (options.results, picture):
        refuse_unwritable(path)
    wanted = [Trial(data, pack, seed, options.beta) for seed in range(options.trials) for data, pack in PUBLISHED]
    try:
        there = results(options.results)
    except ValueError as error:
        sys.exit(f"Error: {printable(error)}.")
    missing = [] if options.table else [trial for trial in wanted if options.epochs not in there.get(trial, {})]
    with ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(run, trial, options.epochs, options.folder, tuple(options.further)): trial for trial in missing}
        try:
            for number, done in enumerate(as_completed(running), 1):
                append(options.results, running[done], done.result())
                print(f"{number} of {len(missing)} trials have ended.", flush=True)
        except RuntimeError as error:
            sys.exit(f"Error: {printable(error)}.")
        finally:
            pool.shutdown(cancel_futures=True)
    found = results(options.results)
    if found:
        drawn(found).savefig(picture, dpi=110)
    said = summary(found)
    print(said)
    return said


def run(trial: Trial, epochs: int, folder: Path, further: tuple[str, ...] = ()) -> dict[int, Figures]:
    """Run a trial up to `epochs`, from its beginning or from its checkpoint, and return its evaluations.

    Raises:
        RuntimeError: It did not get that far, or has gone further already.
    """
    place = (folder / f"{trial.data}-{trial.pack}-{trial.seed}-beta{trial.beta}").resolve()
    there = evaluations(place)
    if epochs not in there:
        if there and max(there) > epochs:
            raise RuntimeError(
                f"{place} has gone beyond {epochs} epochs: name one of {', '.join(map(str, there))} with --epochs"
            )
        trials.go_on(place, (*trial.overrides, *further), epochs * ITERATIONS)
    found = evaluations(place)
    if epochs not in found:
        raise RuntimeError(f"{place} did not finish; its train.log says why")
    return found


def evaluations(place: Path) -> dict[int, Figures]:
    """Return the evaluations of a trial by epochs; none if it has not begun."""
    return {at // ITERATIONS: Figures(*figures) for at, figures in trials.evaluations(place).items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3, choices=range(1, 11), metavar="N", help="seeds of each (default 3)")
    parser.add_argument(
        "--epochs", type=int, default=EPOCHS, choices=range(1, EPOCHS + 1), metavar="N", help=f"of each (default {EPOCHS})"
    )
    parser.add_argument(
        "--beta",
        type=float,
        default=READINGS[0],
        choices=READINGS,
        help="Adam's β₁: the authors' beta1 of 0.8 was 0.2 in Blocks until 2017",
    )
    parser.add_argument("--jobs", type=int, default=2, choices=range(1, 65), metavar="N", help="trials at a time (default 2)")
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument(
        "--results", type=Path, default=ROOT / "docs" / "packing.csv", help="default docs/packing.csv, with a picture beside it"
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "outputs" / "packing", help="of the runs (default outputs/packing)"
    )
    parser.add_argument("--further", nargs="+", default=[], metavar="KEY=VALUE", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    process.run(main)
