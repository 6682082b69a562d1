"""Images that lie encoded in files or in a table: what their headers say before any is decoded."""

import functools
import logging
import math
from collections import Counter
from collections.abc import Sequence
from typing import IO, Any

from ganexp.data.dataset import Dataset, Range, Size, sides
from ganexp.data.headers import Header, read, sample, smaller
from ganexp.data.levels import ordered, range_of
from ganexp.printable import printable

log = logging.getLogger(__name__)


class EncodedImages(Dataset):
    """Images in formats that Pillow reads; an image is given by its file, or by the number of its row.

    Messages call the set `where`; the other arguments are those of `ImageFolder`.
    """

    like: Dataset | None = None
    """A data set whose `value_range` is taken, if it has one: the training part of what is held out, or what is compared."""
    double = False
    """Whether each file holds two images side by side; `Pairs`, which cuts them, then reports what is cropped."""
    _sizes_reported = False

    def __init__(self, where: str, image_size: Size, channels: int, range: Range | None, *, strict: bool) -> None:
        self.where, self.shape = printable(where), (channels, *sides(image_size))
        self.strict, self._declared = strict, ordered(range)

    @property
    def images(self) -> Sequence[Any]:
        """What each image is given by, in the order of `load`."""
        raise NotImplementedError

    def open(self, image: Any) -> IO[bytes]:
        """Open an image as it is stored."""
        raise NotImplementedError

    def name_of(self, image: Any) -> str:
        """Return the name of an image in messages."""
        raise NotImplementedError

    @functools.cached_property
    def headers(self) -> dict[Any, Header]:
        """The headers of all images of a `strict` set, else of some."""
        return read(self.images if self.strict else sample(self.images), self.open)

    @functools.cached_property
    def value_range(self) -> Range | None:  # type: ignore[override]  # determined when it is first needed
        settings: Any = {"declared": self._declared, "like": lambda: self.like.value_range if self.like else None}
        return range_of(self.where, self.headers, self.images, self.open, **settings)

    def report_sizes(self) -> None:
        """Report, once, images that would be enlarged or cropped; where the set is `strict`, refuse the first."""
        if not self._sizes_reported:
            self._report_smaller(self.shape[1], self.shape[2])
            if self.like is None and not self.double:
                self._report_cropped(self.shape[1], self.shape[2])
        self._sizes_reported = True

    def _report_smaller(self, height: int, width: int) -> None:
        too_small = smaller(self.headers, (height, width))
        if not too_small:
            return
        count = len(self.images)
        looked_at = count if self.strict else len(sample(self.images))
        first, (own_width, own_height) = too_small[0]
        sentence = (
            f"{self.where}: {len(too_small):,} of {looked_at:,} {'images' if looked_at == count else 'images looked at'} are "
            f"smaller than {width}×{height} pixels, {printable(self.name_of(first))} ({own_width}×{own_height}) among them"
        )
        if self.strict:
            raise OSError(f"{sentence}: lower dataset.image_size, leave them out, or choose dataset.strict=false")
        log.warning("%s, and are enlarged: lower dataset.image_size, or leave them out.", sentence)

    def _report_cropped(self, height: int, width: int) -> None:
        """Report how many images lose more than a pixel at a side when they are scaled to cover height and width."""

        def loses(own: tuple[int, int]) -> bool:
            scale = max(width / own[0], height / own[1])
            return own[0] * scale - width > 1 or own[1] * scale - height > 1

        cropped = Counter(own for own, _ in self.headers.values() if loses(own))
        if not cropped:
            return
        (common_width, common_height), _ = cropped.most_common(1)[0]
        if common_height <= 2 * height and common_width <= 2 * width:
            remedy = f"dataset.image_size={common_width}x{common_height} keeps these whole"
        else:
            divisor = math.gcd(common_height, common_width)
            proportions = f"{common_width // divisor}:{common_height // divisor}"
            remedy = f"a dataset.image_size of their proportions, {proportions}, keeps these whole"
        log.info(
            "%s: %s of %s images looked at are cut to the proportions of %d×%d, most of them from %d×%d pixels: %s.",
            *(self.where, f"{cropped.total():,}", f"{len(self.headers):,}", width, height, common_width, common_height, remedy),
        )
