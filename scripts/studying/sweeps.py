"""Sweeps that are run, or finished, and read back from their folders."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

from ganexp.cli.sweeping.record import Sweep
from ganexp.cli.sweeping.results import Result, results
from ganexp.logging.layout import RunFolder

TRAIN = Path(__file__).resolve().parent.parent.parent / "train.py"


def run_all(sweeps: Mapping[Path, Sequence[str]], jobs: int, what: str) -> None:
    """Run what is missing of some sweeps, given by folder with their command lines, several side by side.

    Raises:
        RuntimeError: A folder has another sweep, or a job failed by anything but divergence; the others have been run.
    """
    for folder, overrides in sweeps.items():
        if Sweep.is_in(folder) and _asked_for(folder) != tuple(overrides):
            raise RuntimeError(f"{folder} has a sweep of other runs: choose another --folder, or move that one away")
    missing = {folder: overrides for folder, overrides in sweeps.items() if not is_over(folder)}
    with ThreadPoolExecutor(jobs) as pool:
        each = pool.map(_run, missing, missing.values())
        for _ in tqdm(each, total=len(missing), desc=what, unit="sweep", disable=None):
            pass
    for folder in missing:
        if not is_over(folder):
            raise RuntimeError(f"{folder} has jobs that did not finish; {folder / 'log.txt'} says why")


def is_over(folder: Path) -> bool:
    """Return whether every job of a sweep finished, diverged, or was skipped since its settings do not fit together."""
    return Sweep.is_in(folder) and all(
        job["state"] in ("finished", "skipped") or has_diverged(job, folder) for job in results(folder)
    )


def has_diverged(job: Result, folder: Path) -> bool:
    """Return whether a job of a sweep was stopped because it diverged."""
    return bool(job["folder"]) and RunFolder(folder / job["folder"]).divergence.exists()


def command(overrides: Sequence[str]) -> str:
    """Return a sweep as one types it."""
    return " ".join(["python train.py -m", *(f'"{one}"' if "[" in one else one for one in overrides)])


def _asked_for(folder: Path) -> tuple[str, ...]:
    return tuple(one for one in Sweep.load(folder).overrides if not one.startswith("hydra.sweep.dir="))


def _run(folder: Path, overrides: Sequence[str]) -> None:
    own = [f"sweep.resume={folder}"] if Sweep.is_in(folder) else [*overrides, f"hydra.sweep.dir={folder}"]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a") as log:
        subprocess.run([sys.executable, str(TRAIN), "-m", *own], stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
