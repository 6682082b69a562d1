"""Trials that are runs of `train.py` with a folder each: made once, or gone on with from their checkpoints."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ganexp.logging.layout import RunFolder
from ganexp.logging.lock import FolderLocked, lock, unlock
from ganexp.logging.reading import read

ROOT = Path(__file__).resolve().parent.parent.parent
KEYS = ("eval/modes", "eval/high_quality", "eval/mode_kl")


def evaluations(place: Path) -> dict[int, tuple[float, ...]]:
    """Return the figures of `KEYS` by iterations; none if the trial has not begun."""
    rows = read(place).rows if place.is_dir() else []
    evaluated = [row for row in rows if all(key in row for key in KEYS)]
    return {int(row["progress/iteration"]): tuple(float(row[key]) for key in KEYS) for row in evaluated}


def diverged(place: Path) -> bool:
    """Return whether the trial has diverged."""
    return RunFolder(place).divergence.exists()


def go_on(place: Path, overrides: Sequence[str], iterations: int) -> None:
    """Train up to so many iterations, from the checkpoint in the folder or from the beginning.

    Raises:
        RuntimeError: Another process trains there.
    """
    length = f"iterations={iterations}"
    if RunFolder(place).last.exists():
        train([f"resume={place}", length])
    else:
        _clear(place)
        train([*overrides, length, f"hydra.run.dir={place}"])


def train(words: Sequence[str]) -> None:
    """Call `train.py`."""
    subprocess.run([sys.executable, str(ROOT / "train.py"), *words], cwd=ROOT, stdin=subprocess.DEVNULL, check=False)


def _clear(place: Path) -> None:
    """Remove the files of a trial that was killed before its first checkpoint."""
    if not place.exists():
        return
    try:
        lock(place)
        shutil.rmtree(place)
    except FolderLocked as error:
        raise RuntimeError(f"{error}: wait for it, or name another --folder") from None
    finally:
        unlock(place)
