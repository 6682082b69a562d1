"""Sizes and kinds of images, from their headers: a few hundred bytes of each are read, and nothing is decoded."""

import logging
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple, TypeVar

from PIL import ExifTags, Image

log = logging.getLogger(__name__)
File = TypeVar("File")
MOST_HEADERS = 1000
"""How many headers, of evenly spaced images, are read where not all have to be: a second or two on a slow disk."""


def sample(files: Sequence[File]) -> Sequence[File]:
    """Return at most `MOST_HEADERS` files, evenly spaced."""
    return files[:: -(-len(files) // MOST_HEADERS) or 1]


class Header(NamedTuple):
    """What the header of an image says."""

    size: tuple[int, int]
    """Width and height, turned as when it is decoded."""
    mode: str
    """Pillow's name of its kind of pixels."""


def read(files: Sequence[File], opened: Callable[[File], IO[bytes]]) -> dict[File, Header]:
    """Return the headers of images; one that cannot be read is left out, and the decoder reports it."""
    headers = {}
    with quietly():
        for file in files:
            with suppress(Exception), opened(file) as stream, Image.open(stream) as image:
                headers[file] = Header(upright_size(image), image.mode)
    return headers


@contextmanager
def quietly() -> Iterator[None]:
    """Ignore Pillow's warnings, which come again when an image is decoded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def smaller(headers: Mapping[File, Header], size: tuple[int, int]) -> list[tuple[File, tuple[int, int]]]:
    """Return which images are smaller than `size`, `(H, W)`, and their own sizes, `(W, H)`."""
    return [(file, own) for file, (own, _) in headers.items() if own[0] < size[1] or own[1] < size[0]]


def size_of(opened: Callable[[], IO[bytes]], *, decode: bool = False) -> tuple[int, int] | None:
    """Return the `upright_size` of the image in a file; None for a broken one."""
    try:
        with opened() as file, Image.open(file) as image:
            return upright_size(image, decode=decode)
    except Exception:  # errors for broken files and archives have no common type
        return None


def upright_size(image: Image.Image, *, decode: bool = False) -> tuple[int, int]:
    """Return width and height of an image that was opened, turned as when it is decoded.

    An orientation that stands behind a PNG's pixels is seen only with `decode`.
    """
    if image.format == "TIFF":  # which Pillow turns as it opens it
        return image.size
    orientation = 1
    with suppress(Exception):  # an image whose EXIF is broken is taken to be upright
        exif = image.getexif() if decode else Image.Image.getexif(image)
        orientation = exif.get(ExifTags.Base.Orientation, 1)
    return image.size[::-1] if orientation in (5, 6, 7, 8) else image.size


def is_double(header: Header, size: tuple[int, int]) -> bool:
    """Return whether an image has the proportions of two images of a size, `(H, W)`, side by side, to within a twentieth."""
    width, height = header.size
    return abs(width * size[0] / (2 * size[1] * height) - 1) < 1 / 20


def report_smaller(
    where: str,
    too_small: Sequence[tuple[str, tuple[int, int]]],
    looked_at: int,
    count: int,
    size: tuple[int, int],
    *,
    strict: bool,
) -> None:
    """Warn of images smaller than `size`, or refuse them where the set is `strict`.

    They are given by their names and sizes `(W, H)`; `looked_at` of the `count` headers of the set were read.
    """
    if not too_small:
        return
    name, (width, height) = too_small[0]
    population = "images" if looked_at == count else "images looked at"
    sentence = (
        f"{where}: {len(too_small):,} of {looked_at:,} {population} are smaller than {size[1]}×{size[0]} pixels, "
        f"{name} ({width}×{height}) among them"
    )
    if strict:
        raise OSError(f"{sentence}: lower dataset.image_size, leave them out, or choose dataset.strict=false")
    log.warning("%s, and are enlarged: lower dataset.image_size, or leave them out.", sentence)


def report_cropped(where: str, headers: Mapping[File, Header], size: tuple[int, int]) -> None:
    """Report how many images lose more than a pixel at a side when they are scaled and cropped to `size`, `(H, W)`."""
    cropped = Counter(header.size for header in headers.values() if _loses(header.size, size))
    if not cropped:
        return
    (width, height), _ = cropped.most_common(1)[0]
    if height <= 2 * size[0] and width <= 2 * size[1]:
        remedy = f"dataset.image_size={width}x{height} keeps these whole"
    else:
        common = math.gcd(height, width)
        proportions = f"{width // common}:{height // common}"
        remedy = f"a dataset.image_size of their proportions, {proportions}, keeps these whole"
    log.info(
        "%s: %s of %s images looked at are cut to the proportions of %d×%d, most of them from %d×%d pixels: %s.",
        *(where, f"{cropped.total():,}", f"{len(headers):,}", *size[::-1], width, height, remedy),
    )


def _loses(own: tuple[int, int], size: tuple[int, int]) -> bool:
    """Return whether an image `(W, H)` that covers `size`, `(H, W)`, reaches more than a pixel beyond it."""
    scale = max(size[1] / own[0], size[0] / own[1])
    return own[0] * scale - size[1] > 1 or own[1] * scale - size[0] > 1
