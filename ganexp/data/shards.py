"""Images in tar files, in WebDataset's layout, on a disk or in object storage."""

import errno
import functools
import itertools
import logging
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.cache import default_folder
from ganexp.data.corrupt import report_skipped
from ganexp.data.dataset import Dataset, Size, sides
from ganexp.data.decoding import DecodingError, decoded
from ganexp.data.digest import of_files
from ganexp.data.headers import report_smaller
from ganexp.data.storage import Storage, unfolded
from ganexp.data.tar_index import Index, index_of, stamps_of
from ganexp.ranges import checked

log = logging.getLogger(__name__)
MOST = 100_000
"""The most shards that braces may stand for."""


class Shards(Dataset):
    """The images of WebDataset shards: shorter side scaled to `image_size`, then the central square, as `ImageFolder` does.

    Members of a tar file whose names are equal up to the first dot are one sample: `0001.png` and `0001.cls`. Its image is the
    first member with one of `ImageFolder`'s extensions; its class is the integer in `.cls`, or that under a key of `.json`.
    Tar files must not be compressed, since images are read in place: headers are read once, and the list is kept beside the
    decoded sets.

    Args:
        path: What fsspec opens, a path or a URL, with braces (`train-{000..127}.tar`) or wildcards (`train-*.tar`) for several
            shards, or a list of these. All must be in one place, such as one host or archive.
        image_size: Side of the square images; or height and width, which images are scaled to cover.
        channels: 3 for colour, 1 for grey.
        label: The key of the class in a sample's `.json`.
        strict: Whether members that have an image's extension but are not images, or are smaller than `image_size`, are
            refused. If not, the former are named in a warning and left out, and the latter are counted and enlarged. Images
            that turn out to be broken only when they are decoded are treated as in `ImageFolder`.

    Raises:
        ValueError: No shard matches, or fsspec cannot open the path.
    """

    @checked
    def __init__(
        self,
        path: str | list[str],
        *,
        image_size: Size = 64,
        channels: Literal[1, 3] = 3,
        label: str = "label",
        strict: bool = False,
    ) -> None:
        self.shape = (channels, *sides(image_size))
        self.strict = strict
        self.label = label
        self.path = [path] if isinstance(path, str) else list(path)
        named = (url for one in self.path for url in unfolded(os.path.expanduser(one)))
        urls = list(itertools.islice(named, MOST + 1))
        if len(urls) > MOST:
            raise ValueError(f"path should name at most {MOST:,} shards, and {path} names more: narrow its braces")
        places = [Storage(url) for url in urls]
        if any(not place.is_like(places[0]) for place in places):
            raise ValueError("path should name shards in one place, such as one host or archive, and names several")
        try:
            found = [shard for place, url in zip(places, urls, strict=True) for shard in place.matching(url)]
            there = bool(found) and (len(found) > 1 or places[0].files.exists(found[0]))
        except Exception as error:  # each file system has its own errors
            raise ValueError(f"path={path} cannot be looked up ({' '.join(str(error).split())[:200]})") from error
        if not there:
            raise ValueError(
                f"path should name tar files, as in train-{{000..127}}.tar or train-*.tar, and {path} matches none"
            )
        self._storage, self._shards = places[0], list(dict.fromkeys(found))
        self._left_out: list[int] = []

    def fingerprint(self) -> list[object]:
        """Return where the shards are, their sizes and versions, and what is read of them."""
        return [self.label, self._left_out, *zip(self._shards, stamps_of(self._storage, self._shards), strict=True)]

    def digest(self) -> str:
        index, members = self._index, self._members(self._index)
        said = zip(index.label, (name.decode(errors="surrogateescape") for name in index.name), strict=True)
        names = [f"{place}/{label}/{name}" for place, (label, name) in enumerate(said)]
        sized = list(zip(names, index.size.tolist(), strict=True))
        return of_files(sized, lambda place, length: members.contents([place], most=length)[0])

    def load(self) -> MapStyle[Tensor]:
        """Return a map-style dataset of `(C, H, W)`, uint8, read and decoded on demand.

        Raises:
            OSError: A shard cannot be read, or holds what a `strict` set refuses; `digest` and `labels` raise it as well.
        """
        return self._members(self._index)

    def skip(self, corrupt: dict[int, str]) -> None:
        count = len(self._index)
        report_skipped(self._said, corrupt, count)
        self.classes  # noqa: B018 (counted while all are there)
        self._left_out = sorted(corrupt)
        self._index = self._index.where(np.delete(np.arange(count), self._left_out))

    @functools.cached_property
    def classes(self) -> int:  # type: ignore[override]  # read when it is first needed
        """The number of classes; 0 if an image has no label."""
        labels = self._index.label
        if (labels < 0).any() and (labels >= 0).any():
            log.warning("%s: %s of %s images have no label.", self._said, f"{(labels < 0).sum():,}", f"{len(labels):,}")
        return 0 if (labels < 0).any() else int(labels.max()) + 1

    def labels(self) -> Tensor:
        without = np.flatnonzero(self._index.label < 0)
        if len(without):
            first = self._members(self._index).name(int(without[0]))
            raise ValueError(
                f"every image should have an integer from 0 on as its class, in a .cls or as {self.label} in a .json, and "
                f"{len(without):,} of {len(self._index):,} have none, {first} among them"
            )
        return torch.from_numpy(self._index.label)

    @property
    def _said(self) -> str:
        return ", ".join(self.path)

    def _members(self, index: Index) -> "_Members":
        return _Members(self._storage, self._shards, index, self.shape)

    @functools.cached_property
    def _index(self) -> Index:
        """List the images, and report what else lies among them."""
        index = index_of(self._storage, self._shards, self.label, default_folder().parent / "shards")
        if len(index.skipped):
            kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(index.skipped.tolist()).most_common())
            log.warning("%s: %d images are read, %d members skipped (%s).", self._said, len(index), len(index.skipped), kinds)
        if not len(index):
            raise OSError(f"{self._said} has no images: their names should end as in 0001.png or 0001.jpg")
        members = self._members(index)
        broken = {place: f"{members.name(place)} is no image" for place in np.flatnonzero(index.width == 0).tolist()}
        if broken and self.strict:
            first = broken[min(broken)]
            raise OSError(f"{first}, of {len(broken):,} such: leave them out, or choose dataset.strict=false")
        if broken:
            report_skipped(self._said, broken, len(index))
        index = index.where(index.width > 0)
        self._look_at(index)
        return index

    def _look_at(self, index: Index) -> None:
        """Report images that would be enlarged."""
        _, height, width = self.shape
        smaller = np.flatnonzero((index.height < height) | (index.width < width)).tolist()
        members = self._members(index)
        found = [(members.name(one), (int(index.width[one]), int(index.height[one]))) for one in smaller]
        report_smaller(self._said, found, len(index), len(index), (height, width), strict=self.strict)


class _Members(MapStyle[Tensor]):
    """Images by their places; those of a batch are requested together, since object storage is slow to answer each request."""

    def __init__(self, storage: Storage, shards: Sequence[str], index: Index, shape: tuple[int, ...]) -> None:
        self.storage = storage
        self.shards = shards
        self.index = index
        self.shape = shape

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, place: int) -> Tensor:
        return self.__getitems__([place])[0]

    def __getitems__(self, places: list[int]) -> list[Tensor]:
        return [self._decoded(place, content) for place, content in zip(places, self.contents(places), strict=True)]

    def _decoded(self, place: int, content: bytes) -> Tensor:
        return decoded(Path(self.name(place)), self.shape, read=lambda _: content)

    def name(self, place: int) -> str:
        """Return what an image is called: its shard, and the member of the shard."""
        return f"{self.shards[self.index.shard[place]]}/{self.index.name[place].decode(errors='backslashreplace')}"

    def contents(self, places: list[int], most: int | None = None) -> list[bytes]:
        """Return the bytes of images, or the first `most` bytes of each.

        Raises:
            DecodingError: An image cannot be read; the cause has an error number, which shows that the storage is at fault.
        """
        index = self.index
        paths = [self.shards[which] for which in index.shard[places]]
        sizes = np.minimum(index.size[places], index.size.max() if most is None else most).tolist()
        contents = []
        for place, found in zip(places, self.storage.ranges(paths, index.start[places].tolist(), sizes), strict=True):
            if isinstance(found, Exception):
                reason = " ".join(str(found).split())[:200] or type(found).__name__
                cause = OSError(errno.EIO, reason)
                raise DecodingError(f"{self.name(place)} cannot be read ({reason})") from cause
            contents.append(found)
        return contents
