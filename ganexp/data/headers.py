"""How large images are, as far as their headers tell: a few hundred bytes of each, and nothing is decoded."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from PIL import Image

LOOKED_AT = 1000
"""Of how many images, evenly spaced, the headers are read where not all have to be: a second or two on a slow disk."""


def sample(files: Sequence[Path]) -> Sequence[Path]:
    """Return at most `LOOKED_AT` files, evenly spaced."""
    return files[:: -(-len(files) // LOOKED_AT) or 1]


def smaller(
    files: Sequence[Path], size: tuple[int, int], opened: Callable[[Path], IO[bytes]]
) -> list[tuple[Path, tuple[int, int]]]:
    """Return which images are too small, and their sizes `(width, height)`, as they are stored.

    Of one whose header cannot be read nothing is known: the decoder will say what is wrong with it.

    Args:
        files: Their paths.
        size: Height and width that are wanted.
        opened: Opens one of them.
    """
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the decoder warns as well
        for path in files:
            try:
                with opened(path) as file, Image.open(file) as image:
                    found_size = image.size
            except Exception:  # what a broken file makes Pillow raise has no common type
                continue
            if found_size[0] < size[1] or found_size[1] < size[0]:
                found.append((path, found_size))
    return found
