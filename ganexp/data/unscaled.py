"""Images of a folder without scaling, for evaluation and for translation."""

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle
from torch.utils.data import Subset

from ganexp.data.cache import default_folder, load
from ganexp.data.corrupt import first_of
from ganexp.data.dataset import Dataset, Range
from ganexp.data.decoding import DecodingError, ReadingError, fitted, upright
from ganexp.data.folder import counted, images_at, listed
from ganexp.data.headers import read, sample, size_of
from ganexp.data.image_folder import ImageFolder
from ganexp.data.levels import range_of
from ganexp.facts import UserError
from ganexp.printable import printable


def images_in(place: Path, shape: Sequence[int], most: int | None = None, like: Dataset | None = None) -> MapStyle[Tensor]:
    """Return the images in a folder or zip archive, all of one shape `(C, H, W)`, as they are.

    Images that cannot be decoded are left out, as when a run trains on a folder, and the log says which; as there, of the
    folders `train` and `test` only the first is read. Colour becomes grey where C is 1. At most `most` images are taken, drawn
    at random, always the same ones. Black and white in images of more than eight bits are those of the data set `like`.
    """
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise ValueError(f"a folder of images does not compare with data of shape {tuple(shape)}")
    size = shape[2], shape[1]
    folder = ImageFolder(str(place), channels=1 if shape[0] == 1 else 3)
    folder.shape, folder.like = tuple(shape), like  # sides may be longer than `image_size` can be
    for path in folder.images:
        own_size = size_of(functools.partial(folder.open, path), decode=True)  # broken ones are left out below
        if own_size not in (None, size):
            sizes = ["×".join(map(str, sides)) for sides in (own_size, size)]
            raise ValueError(
                f"{printable(path)} has {sizes[0]} pixels, and the data {sizes[1]}: scale the images yourself, or set "
                "dataset.image_size, since scaling changes every figure"
            )
    data: Any = load(folder, default_folder())
    if most is None or most >= len(data):
        return data
    return Subset(data, torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:most].tolist())


class Pictures:
    """The images of a folder or zip archive, at any depth, read as those of `ImageFolder`, but each in its own size.

    Args:
        path: The folder or archive.
        channels: 3 for colour, 1 for grey.
        size: Height and width that images are scaled to cover, and cut to in the middle; None leaves them as they are.
        value_range: What is black and white in images of more than eight bits; by default found over all of them.
        half: Which half of each image is taken, if not all of it.
    """

    def __init__(
        self,
        path: Path,
        channels: int,
        size: tuple[int, int] | None = None,
        value_range: Range | None = None,
        half: Literal["left", "right"] | None = None,
    ) -> None:
        try:
            self._place = images_at(path)
        except ValueError as error:
            raise UserError(f"FOLDER should be {str(error).removeprefix('path should be ')}") from error
        self.path, self._channels, self._size, self._half = path, channels, size, half
        listing = listed(self._place)
        lost = listing.lost
        self.files: dict[Path, Path] = {}
        """Each image, by its path below the folder, which ends in .png whatever the file's own extension is."""
        self.lost = [f"{printable(file)} ({kind})" for file, kind in lost]
        """The images that cannot be read, with the reason; iterating adds those that cannot be decoded."""
        self.others = counted((Counter(kind for _, kind in listing.skipped) - Counter(kind for _, kind in lost)).elements())
        """How many other files there are of each kind, in words."""
        for file in listing.images:
            name = file.relative_to(path).with_suffix(".png")
            if name in self.files:
                raise UserError(
                    f"{printable(self.files[name])} and {printable(file)} are both called {name}: rename one of them"
                )
            self.files[name] = file
        files, opened = [*self.files.values()], self._place.open
        self.headers = read(sample(files), opened)
        """The headers of some of them."""
        self.value_range = range_of(printable(path), self.headers, files, opened, like=lambda: value_range)
        """What is black and white in images of more than eight bits; None if there are none."""

    def __getitem__(self, name: Path) -> Tensor:
        """Return the pixels of an image by its name, `(C, H, W)`, uint8."""
        with upright(self.files[name], self._place.read, self.value_range) as image:
            if self._half:
                left = image.width // 2 * (self._half == "right")
                image = image.crop((left, 0, left + image.width // 2, image.height))
            return fitted(image, (self._channels, *(self._size or (image.height, image.width))))

    def __iter__(self) -> Iterator[tuple[Path, Tensor]]:
        """Yield the name and the pixels of each image that can be decoded; the others are added to `lost`."""
        for name in self.files:
            try:
                yield name, self[name]
            except ReadingError:
                raise
            except DecodingError as error:
                self.lost.append(str(error))

    def refuse_lost(self) -> None:
        """Raise a UserError if images could not be used."""
        if self.lost:
            raise UserError(f"{len(self.lost):,} of the images in {printable(self.path)} are left out: {first_of(self.lost)}")
