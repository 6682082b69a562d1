"""Two sets of images without pairs, for two translators, one in each direction."""

import copy
import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Le
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.batch import Batch
from ganexp.data.dataset import Dataset, Range, Size
from ganexp.data.image_folder import ImageFolder
from ganexp.data.levels import ordered
from ganexp.data.pairs import folder_at
from ganexp.ranges import checked
from ganexp.streams import stream

Rounds = Annotated[int, Ge(1), Le(10_000)]


class Unpaired(Dataset):
    """Stacks (a, b) of an image of each of two unrelated sets, for the two_way networks.

    A stack is its own source, and has no target: G's output is compared with stacks of real images, not with one of them.

    Images are combined at random in each of `rounds` rounds: each image of the larger set comes once per round, and the images
    of the smaller set come equally often, to within one. An epoch goes through all rounds in random order, so that an image has
    another companion each time until they recur. Images are read as `ImageFolder` reads them, and stacked when they are drawn.
    The two images of a stack are mirrored together.

    Args:
        path: A folder with the folders `trainA` and `trainB`, as the authors of CycleGAN have them, and perhaps `testA` and
            `testB`, which then are held out; or `a` and `b`.
        a, b: Two folders or zip archives.
        image_size: Side of the square images; or height and width.
        channels: Of images of each set: 3 for colour, 1 for grey.
        a_range, b_range: Black and white in images of more than eight bits of each set, as in `ImageFolder`.
        rounds: How often each image of the larger set is in the data set, with companions of its own each time.
        strict: As in `ImageFolder`.
    """

    paired = False

    @checked
    def __init__(
        self,
        *,
        path: str | None = None,
        a: str | None = None,
        b: str | None = None,
        image_size: Size = 64,
        channels: Literal[1, 3] = 3,
        a_range: Range | None = None,
        b_range: Range | None = None,
        rounds: Rounds = 16,
        strict: bool = False,
    ) -> None:
        if (path is None) == (a is None or b is None) or (path is not None and (a or b)):
            raise ValueError("either path should be given, to folders trainA and trainB, or both a and b")
        self.rounds = rounds
        read = functools.partial(folder_at, image_size=image_size, strict=strict, channels=channels)
        ranges = ordered(a_range, "a_range"), ordered(b_range, "b_range")
        self.sets: tuple[ImageFolder, ...]
        self._tests: tuple[ImageFolder, ...] | None = None
        if path is None:
            self.sets = read("a", str(a), range=ranges[0]), read("b", str(b), range=ranges[1])
        else:
            train, test = ([Path(path).expanduser() / f"{split}{letter}" for letter in "AB"] for split in ("train", "test"))
            self.sets = tuple(read("path", str(place), range=levels) for place, levels in zip(train, ranges, strict=True))
            self._tests = tuple(read("path", str(place)) for place in test if place.is_dir())
        own_channels, *size = self.sets[0].shape
        self.shape = self.source_shape = (2 * own_channels, *size)

    @property
    def parts(self) -> tuple[Dataset, ...]:
        return self.sets

    def joined(self, *parts: Any) -> MapStyle[Tensor]:
        return Companions(parts, self.rounds)

    @property
    def source_ranges(self) -> tuple[Range | None, ...]:
        return tuple(images.value_range for images in self.sets)

    def derive(self, batch: Batch) -> Batch:
        return replace(batch, source=batch.values)

    def digest(self) -> str:
        return "-".join([*(images.digest() for images in self.sets), str(self.rounds)])

    def held_out(self) -> "Unpaired | None":
        """Return the held-out images of both sets, in one round."""
        candidates = [images.held_out() for images in self.sets] if self._tests is None else self._tests
        sets = tuple(images for images in candidates if images)
        if len(sets) < 2:
            return None
        for trained, held_out in zip(self.sets, sets, strict=True):
            held_out.like = trained
        others = copy.copy(self)
        others.sets, others._tests, others.rounds = sets, (), 1
        return others


class Companions(MapStyle[Tensor]):
    """Images of two sets, stacked as they are drawn together."""

    def __init__(self, sets: Sequence[Any], rounds: int) -> None:
        self.sets, self.most = sets, max(map(len, sets))
        shuffled = (torch.randperm(self.most, generator=stream(0, "companions", index=i)) for i in range(rounds))
        self.companions = torch.cat([*shuffled]).tolist()
        """The index of the companion of each image of the larger set, in each round, modulo the length of the smaller set."""

    def __len__(self) -> int:
        return len(self.companions)

    def __getitem__(self, index: int) -> Tensor:
        places = index % self.most, self.companions[index]
        return torch.cat([images[place % len(images)] for images, place in zip(self.sets, places, strict=True)])
