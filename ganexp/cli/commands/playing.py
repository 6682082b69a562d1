"""Trains the generators to play with, and finds them again."""

import hashlib
import sys
import tempfile
from pathlib import Path

from ganexp.cli.composing import compose
from ganexp.cli.ready import READY
from ganexp.config.build import build
from ganexp.config.loading import load, load_discriminator
from ganexp.data import default_folder
from ganexp.documents import refuse_unwritable
from ganexp.logging import reading
from ganexp.sampling import save


def ready(name: str) -> Path:
    """Return the folder of a saved generator, which is trained now if the cache folder has none yet.

    Raises:
        UserError: The data are not there, or the cache folder cannot be written.
    """
    folder = default_folder().parent / "generators"
    place = folder / f"{name}_{hashlib.sha256(' '.join(READY[name]).encode()).hexdigest()[:8]}"
    if reading.is_saved(place):
        return place
    print(f"A small generator of {name} is trained first, once: one to three minutes. It is kept in {place}.", file=sys.stderr)
    refuse_unwritable(place / "model.safetensors")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as apart:
        run, saved = Path(apart, "run"), Path(apart, "saved")
        build(compose(*READY[name]), run).fit()
        save(load(run), saved, discriminator=load_discriminator(run))
        try:
            saved.rename(place)
        except OSError:  # another process was faster
            if not reading.is_saved(place):
                raise
    return place
