"""Sizes and kinds of images, from their headers: a few hundred bytes of each are read, and nothing is decoded."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple, TypeVar

from PIL import ExifTags, Image

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
