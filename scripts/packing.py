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
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from ganexp.cli.commands.pages.writing import writing
from ganexp.logging.documents import refuse_unwritable
from ganexp.logging.layout import RunFolder
from ganexp.logging.reading import read
from ganexp.printable import printable
from published.pacgan import PUBLISHED, Trial, append, results, summary

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ("eval/modes", "eval/high_quality", "eval/mode_kl")


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
                append(options.results, running[done], done.result())
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
