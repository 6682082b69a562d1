"""Scenes and objects by category, each category one LMDB database as published."""

import bisect
import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.dataset import Dataset, Size, sides, stamp
from ganexp.data.decoding import DecodingError, decoded
from ganexp.data.digest import of_files
from ganexp.data.folder import Folder
from ganexp.printable import printable
from ganexp.ranges import checked

NAME = re.compile(r"\w+", re.ASCII)
"""Of a category."""


class LSUN(Dataset):
    """Photographs of scenes and objects, whose shorter side is 256 (Yu et al. 2015): the central square of each, scaled.

    Each category is a folder with LMDB's file `data.mdb`, as the authors' archives unpack to: `bedroom_train_lmdb`, or without
    `_lmdb`. The folder is read directly: torchvision's class keeps a list of keys as a pickle in the working directory, and
    unpickles what it finds there.

    Several categories are classes, in the order in which they are given.

    Args:
        root: Where the folders are. They cannot be downloaded from here.
        category: The category with its part, such as `bedroom_train` or `church_outdoor_val`, or several of them.
        image_size: Side of the square images, or height and width.

    Raises:
        ValueError: No category is given, or one twice or that is no name; its folder is missing, or the package lmdb is.
    """

    @checked
    def __init__(self, root: str, *, category: str | list[str] = "bedroom_train", image_size: Size = 64) -> None:
        categories = [category] if isinstance(category, str) else list(category)
        self.shape = (3, *sides(image_size))
        self.root = Path(root).expanduser()
        if not categories or len(set(categories)) < len(categories) or not all(map(NAME.fullmatch, categories)):
            raise ValueError(f"category should be a name such as bedroom_train, or several in a list, not {category}")
        self._folders = [_folder_of(self.root, one) for one in categories]
        self.classes = len(categories) if len(categories) > 1 else 0
        try:
            import lmdb  # noqa: F401
        except ImportError:
            raise ValueError('its files are read by the package lmdb, which is missing: pip install "ganexp[lsun]"') from None

    def fingerprint(self) -> list[object]:
        """Where the databases lie, their sizes and times."""
        return [[str(folder.resolve()), *stamp(folder / "data.mdb")] for folder in self._folders]

    def digest(self) -> str:
        """Return what identifies the images wherever they lie."""
        files = [folder.relative_to(self.root) / "data.mdb" for folder in self._folders]
        sizes = [(str(file), (self.root / file).stat().st_size) for file in files]
        return of_files(self.root, sizes, Folder(self.root).head)

    def load(self) -> MapStyle[Tensor]:
        """Return a map-style dataset of `(3, H, W)`, uint8, decoded as it is read.

        Raises:
            OSError: A database is broken or empty.
        """
        return _Scenes(self._folders, [_keys(folder) for folder in self._folders], (self.shape[1], self.shape[2]))

    def labels(self) -> Tensor:
        """Return the category of each image, `(N,)`, int64, in the order of `load`.

        Raises:
            OSError: A database is broken or empty.
            ValueError: The set has one category only.
        """
        if not self.classes:
            raise ValueError("category should be a list of several where labels are needed")
        counts = torch.tensor([len(_keys(folder)) for folder in self._folders])
        return torch.arange(self.classes).repeat_interleave(counts)


class _Scenes(MapStyle[Tensor]):
    def __init__(self, folders: Sequence[Path], keys: Sequence[np.ndarray], size: tuple[int, int]) -> None:
        self.folders = folders
        self.keys = keys
        self.size = size
        self.ends = [*itertools.accumulate(map(len, keys))]

    def __len__(self) -> int:
        return self.ends[-1]

    def __getitem__(self, index: int) -> Tensor:
        which = bisect.bisect_right(self.ends, index)
        folder, key = self.folders[which], bytes(self.keys[which][index - self.ends[which]])
        return decoded(folder / key.decode(errors="backslashreplace"), self.size, 3, read=lambda _: _value(folder, key))


def _folder_of(root: Path, category: str) -> Path:
    for folder in (root / f"{category}_lmdb", root / category):
        if (folder / "data.mdb").is_file():
            return folder
    raise ValueError(
        f"category={category} should be in {printable(root / f'{category}_lmdb')}, and there is no data.mdb: LSUN cannot be "
        "downloaded automatically, so unpack the category's archive there, or name the folder that has it with data_root=…"
    )


def _opened(folder: Path) -> "lmdb.Environment":  # type: ignore[name-defined]  # noqa: F821
    """Open a database for one look: LMDB forbids to open one twice in a process, or to take an open one through a fork."""
    import lmdb

    return lmdb.open(str(folder), readonly=True, lock=False, readahead=False, meminit=False, create=False)


def _keys(folder: Path) -> np.ndarray:
    """Return all keys, sorted, as one array, of which worker processes need no copies; none ends with a zero byte."""
    import lmdb

    try:
        with _opened(folder) as database, database.begin() as transaction:
            keys = np.array(list(transaction.cursor().iternext(values=False)), dtype=np.bytes_)
    except lmdb.Error as error:
        raise OSError(f"the files of LSUN in {printable(folder)} are broken ({error}): unpack the archive anew") from error
    if not len(keys):
        raise OSError(f"the files of LSUN in {printable(folder)} hold no images: unpack the archive anew")
    return keys


def _value(folder: Path, key: bytes) -> bytes:
    with _opened(folder) as database, database.begin() as transaction:
        value: bytes | None = transaction.get(key)
    if value is None:
        raise DecodingError(f"{printable(folder)} has no {key!r} any more")
    return value
