"""Black and white in images of more than eight bits per channel: one range for a whole set.

No file states its range. For a set whose range is not declared, the smallest range from 0 to one of `WHITES` is taken that
holds all values: a dark image stays dark beside the others. Images of eight bits need none, and stay as they are.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, TypeVar

import numpy as np
from PIL import Image

from ganexp.data.dataset import Range
from ganexp.data.headers import Header, quietly

log = logging.getLogger(__name__)
File = TypeVar("File")
WHITES = (1, 255, 1023, 4095, 16383, 65535)
"""Of floats in [0, 1], and of integers or floats of 8, 10, 12, 14 and 16 bits."""


def ordered(range: Range | None, name: str = "range") -> Range | None:
    """Return a declared range; refuse one whose white is not above black."""
    if range is None:
        return None
    black, white = range
    if not black < white:
        raise ValueError(f"{name} should be two numbers, black and white, the second of which is greater; got {[*range]}")
    return black, white


def range_of(
    where: str,
    headers: Mapping[File, Header],
    files: Sequence[File],
    opened: Callable[[File], IO[bytes]],
    *,
    declared: Range | None = None,
    like: Callable[[], Range | None] = lambda: None,
) -> Range | None:
    """Return the values that are black and white in a set; None if its images have eight bits, or values beyond all `WHITES`.

    Only where some of the headers are of more than eight bits, and no range is declared, images are decoded: until white is
    known to be the greatest, or else all. `like` returns the range of the set that this one is compared or trained with, and is
    called only if it is needed. The log names the set as `where`.
    """
    kinds = Counter(_kind(header.mode) for header in headers.values())
    if len(kinds) == 1 and EIGHT_BITS in kinds:
        if declared:
            log.warning("%s: dataset.range is of images of more than eight bits, and none is one: it changes nothing.", where)
        return declared
    if len(kinds) > 1:
        counts = ", ".join(f"{count:,} of {kind}" for kind, count in kinds.most_common())
        log.warning("%s: images are of different kinds (%s): what is white in one may not be in another.", where, counts)
    known = declared or like()
    if known or not kinds:
        return known
    highest = -1.0
    with quietly():
        for file in files:
            with suppress(Exception), opened(file) as stream, Image.open(stream) as image:  # the decoder says what is wrong
                if _kind(image.mode) != EIGHT_BITS:
                    values = np.asarray(image)
                    if values.min() >= 0 and values.max() <= WHITES[-1]:
                        highest = max(highest, float(values.max()))
            if highest > WHITES[-2]:
                break
    if highest < 0:
        return None
    white = next(candidate for candidate in WHITES if highest <= candidate)
    log.warning(
        "%s: images have more than eight bits, with values up to %g, and %g is taken to be white: declare it, as by "
        "dataset.range=[0,%g], or another range.",
        where,
        highest,
        white,
        white,
    )
    return 0, white


EIGHT_BITS = "eight bits"


def _kind(mode: str) -> str:
    return {"I": "integers", "F": "floats"}.get(mode[0], EIGHT_BITS)
