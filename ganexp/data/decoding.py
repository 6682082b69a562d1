"""From image files to tensors of one shape."""

import errno
import io
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.dataset import Range
from ganexp.printable import printable

Part = tuple[tuple[int, int], tuple[float, float, float, float]]
"""Width and height of an image, and left, top, right and bottom of a part of it, in its pixels."""


class DecodingError(OSError):
    """An image cannot be decoded; the message is one sentence that names the file.

    A DataLoader raises the error of a worker process again, with the worker's traceback as its message; the sentence is the
    last line of the traceback.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message.rstrip().rpartition("\n")[2].removeprefix(f"{__name__}.{type(self).__name__}: "))


class ReadingError(DecodingError):
    """An image cannot be read because of the machine, its disk or its memory, and not because of the file."""


class UnlikeError(DecodingError):
    """A sample has another shape or type than the first; the message is one sentence, with the remedy."""


class ImageFiles(MapStyle[Tensor]):
    """Images by their places in a list of files, each decoded when it is read, with the `settings` of `decoded`."""

    def __init__(self, files: Sequence[Path], shape: tuple[int, ...], **settings: Any) -> None:
        self.files, self.shape, self.settings = files, shape, settings

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        return decoded(self.files[index], self.shape, **self.settings)


def decoded(
    path: Path,
    shape: tuple[int, ...],
    *,
    crop: int | None = None,
    value_range: Range | None = None,
    read: Callable[[Path], bytes] | None = None,
) -> Tensor:
    """Return the middle of an image, `(C, H, W)`, uint8; `ImageFolder` states the rules.

    Args:
        path: The file.
        shape: Of the result: 3 channels for colour, 1 for grey.
        crop: Side of the square that is cut out before it is scaled; the image's shorter side by default.
        value_range: What is black and white in an image of more than eight bits; one that exceeds it cannot be decoded.
        read: Returns the content of a file that does not lie at `path`, but in an archive or table.
    """
    with upright(path, read, value_range) as image:
        if crop:
            left, top = (image.width - crop) // 2, (image.height - crop) // 2
            image = image.crop((left, top, left + crop, top + crop))
        return fitted(image, shape)


@contextmanager
def upright(path: Path, read: Callable[[Path], bytes] | None = None, value_range: Range | None = None) -> Iterator[Image.Image]:
    """Open an image, of eight bits per channel, turned as its EXIF says; an error in the block becomes a `DecodingError`.

    The arguments are those of `decoded`. Pillow refuses images of over 179 million pixels, which it takes for an attack.
    """
    try:
        with Image.open(io.BytesIO(read(path)) if read else path) as image:
            image.load()
            with suppress(Exception):  # an image whose EXIF is broken is taken to be upright
                ImageOps.exif_transpose(image, in_place=True)
            yield _of_eight_bits(image, value_range)
    except Exception as error:  # Pillow's errors for broken files have no common type
        if isinstance(error, MemoryError) or getattr(error, "errno", None) not in (None, errno.EINVAL):  # at invalid offsets
            reason = getattr(error, "strerror", None) or "not enough memory"
            raise ReadingError(f"{printable(path)} cannot be read ({reason})") from error
        unknown = isinstance(error, UnidentifiedImageError)  # its text repeats the path, or gives a memory address
        reason = "its format is not known" if unknown else error or type(error).__name__
        raise DecodingError(f"{printable(path)} cannot be decoded as an image ({reason})") from error


def fitted(image: Image.Image, shape: tuple[int, ...], part: Part | None = None) -> Tensor:
    """Return a part of an image, by default its middle, `(C, H, W)`, uint8, scaled to height and width.

    To within one level of 255, the middle is that of torchvision's `Resize` and `CenterCrop`, which would first scale the whole
    image: gigabytes, for one that is very long and one pixel wide. Only the part that is kept is processed. A `part` is that of
    another image of the same view, perhaps in another resolution, as `middle_of` returns it.
    """
    channels, height, width = shape
    (whole_width, whole_height), box = part or middle_of(image.size, height, width)
    left, right, first, last = _along(image.width, width, box[0::2], image.width / whole_width)
    top, bottom, upper, lower = _along(image.height, height, box[1::2], image.height / whole_height)
    kept = _over_white(image.crop((first, upper, last, lower)))
    scaled = kept.resize((width, height), Image.Resampling.BILINEAR, (left - first, top - upper, right - first, bottom - upper))
    pixels = np.array(scaled if channels == 3 else scaled.convert("L"))
    return torch.from_numpy(pixels.reshape(height, width, channels)).permute(2, 0, 1)


def middle_of(size: tuple[int, int], height: int, width: int) -> Part:
    """Return the part of an image, given by its width and height, that remains when it is scaled to cover height and width."""
    wide = size[0] * height > size[1] * width  # something is cut off at the left and the right
    long, short = size if wide else size[::-1]
    along, across = (width, height) if wide else (height, width)
    scaled = across * long // short
    scale = long / scaled
    begin = round((scaled - along) / 2)
    first, last = begin * scale, min((begin + along) * scale, long)
    return size, (first, 0, last, short) if wide else (0, first, short, last)


def _along(side: int, pixels: int, ends: Sequence[float], scale: float) -> tuple[float, float, int, int]:
    """Return both ends of a part along one side, scaled, and the first and last pixels that the filter reaches there."""
    first, last = ends[0] * scale, min(ends[1] * scale, side)
    support = math.ceil(max((last - first) / pixels, 1)) + 1
    return first, last, max(0, math.floor(first) - support), min(side, math.ceil(last) + support)


def _of_eight_bits(image: Image.Image, value_range: Range | None) -> Image.Image:
    """Scale an image of more than eight bits per channel to eight; Pillow itself would clip it."""
    if not image.mode.startswith(("I", "F")):
        return image
    values = np.asarray(image)
    low, high = values.min(), values.max()
    extent = f"its pixels are in [{low:g}, {high:g}], and"
    if value_range is None:
        raise ValueError(f"{extent} what is black and white is not known: declare it, as by dataset.range=[{low:g},{high:g}]")
    black, white = value_range
    if not (black <= low and high <= white):
        raise ValueError(
            f"{extent} those of its set in [{black:g}, {white:g}]: declare both, as by dataset.range=[black,white]"
        )
    eight = np.rint((values - black if black else values) * np.float32(255 / (white - black))).astype(np.uint8)
    if isinstance(clear := image.info.get("transparency"), int):
        eight[values == clear] = 255  # over white, as other transparent pixels
    return Image.fromarray(eight)


def _over_white(image: Image.Image) -> Image.Image:
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")
