"""Trains the generators to play with, and finds them again."""

import hashlib
import logging
import shutil
import sys
from pathlib import Path

from filelock import FileLock

from ganexp.cli.commands.sample import READY
from ganexp.cli.composing import compose
from ganexp.config.build import build
from ganexp.config.loading import load, load_discriminator
from ganexp.data import default_folder
from ganexp.documents import UNFINISHED, refuse_unwritable
from ganexp.facts import UserError
from ganexp.logging import progress
from ganexp.sampling import save

ROOM = 2**25
"""More bytes than the run and the saved generator take."""


def ready(name: str) -> Path:
    """Return the folder of a saved generator, which is trained now if the cache folder has none yet, or a broken one.

    Of several processes one trains, and the others wait.
    """
    folder = default_folder().parent / "generators"
    place = folder / f"{name}_{hashlib.sha256(' '.join(READY[name]).encode()).hexdigest()[:8]}"
    if _is_whole(place):
        return place
    lock = place.with_suffix(".lock")
    refuse_unwritable(lock, ROOM)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        if not _is_whole(place):
            _train(name, place)
    return place


def _is_whole(place: Path) -> bool:
    try:
        load(place)
        load_discriminator(place)
    except UserError:
        return False
    return True


def _train(name: str, place: Path) -> None:
    print(f"A small generator of {name} is trained first, once: one to three minutes. It is kept in {place}.", file=sys.stderr)
    apart = place.with_suffix(UNFINISHED)  # always the same, so that a killed process leaves no second one
    _remove(apart)
    lines = logging.StreamHandler()  # on a terminal, a bar shows the progress instead
    progress.log.addHandler(lines)
    progress.log.setLevel(logging.INFO)
    try:
        build(compose(*READY[name]), apart / "run").fit()
        saved = save(load(apart / "run"), apart / "saved", discriminator=load_discriminator(apart / "run"))
        _remove(place)
        saved.rename(place)
    finally:
        progress.log.removeHandler(lines)
        progress.log.setLevel(logging.NOTSET)
        _remove(apart)


def _remove(place: Path) -> None:
    """Remove what is at a place of the cache, whatever it is; of a link, the link alone."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
