"""Does a GAN need relativistic pairing and both penalties? R3GAN's ablation on stacked MNIST, beside the published figures.

    python scripts/pairing.py           # two losses × two penalties, five seeds each: 8 core-hours or less
    python scripts/pairing.py --seeds 1 # one seed of each; more seeds go on from there
    python scripts/pairing.py --table   # only the table of what there is

Every evaluation of a trial is a line of docs/claims/claim_13.csv, and a trial that is there is not run again. One that was
stopped goes on from its checkpoint. Settings and departures from the paper are in published/pairing.py. MNIST is used from
GANEXP_DATA. Type `ganexp features mnist` first: its classifier counts the modes.
"""

if __name__ == "__main__":
    from ganexp.cli import process

    process.begin()  # while torch is imported

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ganexp.documents import refuse_unwritable
from ganexp.printable import printable
from published import trials
from published.pairing import SEEDS, Trial, append, results, summary, wanted

ITERATIONS = 6000
"""Ten iterations took 0.15 (one penalty) to 0.21 s (both) each on a core of a busy machine (2026-11-29, AMD EPYC, torch
2.14.1): so many take about 6 core-hours in 20 trials, and their evaluations less than one."""
EVERY = 2000
FAILED = (0.0, 0.0, math.log(1000))
"""The figures of a trial that diverged; the divergence is that of a single mode."""


def main(arguments: Sequence[str] | None = None) -> str:
    """Run what is missing, print the table of it all, and return that."""
    options = _parser().parse_args(arguments)
    refuse_unwritable(options.results)
    try:
        there = results(options.results)
        missing = [] if options.table else [one for one in wanted(options.seeds) if ITERATIONS not in there.get(one, {})]
        for number, trial in enumerate(missing, 1):
            append(options.results, trial, run(trial, options.folder, tuple(options.further)))
            print(f"{number} of {len(missing)} trials have ended.", flush=True)
        said = summary(results(options.results))
    except (ValueError, RuntimeError) as error:
        sys.exit(f"Error: {printable(error)}.")
    print(said)
    return said


def run(trial: Trial, folder: Path, further: tuple[str, ...] = ()) -> Mapping[int, tuple[float, ...]]:
    """Run a trial to its end, from its beginning or from its checkpoint, and return its evaluations by iterations.

    Raises:
        RuntimeError: It was stopped before its end.
    """
    place = (folder / f"{trial.loss}-{trial.penalty}-{trial.seed}").resolve()
    spaced = (f"evaluate_every={EVERY}", f"checkpoint_every={EVERY}")
    if ITERATIONS not in trials.evaluations(place):
        trials.go_on(place, (*trial.overrides, *spaced, *further), ITERATIONS)
    found = trials.evaluations(place)
    if ITERATIONS in found:
        return found
    if trials.diverged(place):
        return {**found, ITERATIONS: FAILED}
    raise RuntimeError(f"{place} did not finish; its train.log says why")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seeds", type=int, default=SEEDS, choices=range(1, SEEDS + 1), metavar="N", help=f"of each (default {SEEDS})"
    )
    parser.add_argument("--table", action="store_true", help="run nothing")
    docs = trials.ROOT / "docs" / "claims" / "claim_13.csv"
    parser.add_argument("--results", type=Path, default=docs, help="default docs/claims/claim_13.csv")
    folder = trials.ROOT / "outputs" / "pairing"
    parser.add_argument("--folder", type=Path, default=folder, help="of the runs (default outputs/pairing)")
    parser.add_argument("--further", nargs="+", default=[], metavar="KEY=VALUE", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    process.run(main)
