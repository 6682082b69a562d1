"""Test whether the update rule that contracts best, as predicted by the game's spectrum, also trains best.

    python scripts/spectra.py                    # trains what docs/spectra.csv lacks, and writes the section of the docs
    python scripts/spectra.py --seeds 0          # trains nothing, and writes the section from the file
    python scripts/spectra.py --shorter 30 --seeds 2 --results outputs/spectra.csv --page outputs/spectra.md

Every rule is trained by plain descent at one rate, with every seed, and judged on the way. At some moments the spectrum of the
game's Jacobian is looked at. Runs are appended to the file as they end, and the same command goes on where it was stopped.
"""

if __name__ == "__main__":
    from ganexp.cli import process

    process.begin()  # while torch is imported

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path

from tqdm import tqdm

from experiments.workers import workers
from ganexp.documents import refuse_unwritable
from spectral import page
from spectral.plan import EVALUATIONS, FIRST_SEED, RULES, SEEDS, SETTINGS
from spectral.runs import Results, train
from spectral.verdict import found

DOCS = Path(__file__).resolve().parent.parent / "docs"


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the missing runs, and write the section."""
    options = _parser().parse_args(arguments)
    for path in (options.results, options.page):
        refuse_unwritable(path)
    try:
        page.around(options.page)
        results = Results(options.results, options.shorter)
    except ValueError as error:
        sys.exit(f"Error: {error}.")
    keys = [
        (setting, rule, seed)
        for seed in range(FIRST_SEED, FIRST_SEED + options.seeds)
        for setting in SETTINGS
        for rule in RULES
    ]
    missing = [key for key in keys if key not in results.runs]
    with workers(options.jobs) as pool:
        running = {pool.submit(train, key, options.shorter): key for key in missing}
        for one in tqdm(as_completed(running), total=len(running), disable=None, unit="run"):
            results.add(running[one], one.result())
    try:
        settings = {name: found(name, results.runs) for name in SETTINGS}
    except ValueError as error:
        sys.exit(f"Error: {error}: name more with --seeds, or another file with --results.")
    page.write(page.section(settings, results.machine), page.plot(settings), options.page)
    print(f"Written to {options.page}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seeds",
        type=int,
        default=SEEDS,
        choices=[0, *range(2, 101)],
        metavar="N",
        help="how many runs each rule has (default 5)",
    )
    shortest = min(setting.iterations for setting in SETTINGS.values()) // EVALUATIONS  # an iteration before each evaluation
    parser.add_argument(
        "--shorter", type=int, default=1, choices=range(1, shortest + 1), metavar="N", help="divide all iterations by N"
    )
    parser.add_argument("--jobs", type=int, default=1, choices=range(1, 65), metavar="N", help="runs at a time (default 1)")
    parser.add_argument(
        "--results", type=Path, default=DOCS / "spectra.csv", help="what was measured (default docs/spectra.csv)"
    )
    parser.add_argument("--page", type=Path, default=DOCS / "strategies.md", help="whose section is written")
    return parser


if __name__ == "__main__":
    process.run(main)
