"""Images that the library `datasets` reads: sets of the Hugging Face Hub, and folders in the layouts that it knows."""

import copy
import functools
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.corrupt import report_skipped
from ganexp.data.dataset import Dataset, Size, sides
from ganexp.data.decoding import decoded
from ganexp.data.digest import of_files
from ganexp.data.headers import report_smaller, sample, smaller
from ganexp.printable import printable
from ganexp.ranges import checked

if TYPE_CHECKING:
    import datasets

HELD_OUT = ("test", "validation")
"""Splits that are taken for samples on which nothing is trained, the first one that there is."""
AUTO = "auto"


class Hub(Dataset):
    """A split of a set that `datasets.load_dataset` reads, without streaming; images are scaled and cut as by `ImageFolder`.

    The library downloads a set once, into its own cache (`HF_HOME`); what it has there needs no network. A folder may hold
    images in sub-folders by class, parquet files, or what `save_to_disk` has written. No code of a repository is run.

    Args:
        path: A folder, or a repository of the hub, `owner/name`.
        split: Which part of it is trained on. `test` or else `validation` counts as held out, if there is such a split.
        subset: Which of a repository's configurations; its default one otherwise.
        revision: A branch, tag or commit of the repository; its main branch otherwise.
        image_column: The column of the images; `auto` is the only one.
        label_column: The column of the classes: class labels, integers from 0 on, or texts, which are sorted; `auto` is the
            only one of class labels, if there is one.
        image_size: Side of the square images; or height and width, which images are scaled to cover.
        channels: 3 for colour, 1 for grey.
        strict: As `ImageFolder` says.

    Raises:
        ValueError: The package datasets is missing, or `path` is neither a folder nor the name of a repository.
    """

    @checked
    def __init__(
        self,
        path: str,
        *,
        split: str = "train",
        subset: str | None = None,
        revision: str | None = None,
        image_column: str = AUTO,
        label_column: str = AUTO,
        image_size: Size = 64,
        channels: Literal[1, 3] = 3,
        strict: bool = False,
    ) -> None:
        self.path, self.split, self.subset, self.revision = path, split, subset, revision
        self.image_column, self.label_column = image_column, label_column
        self.shape = (channels, *sides(image_size))
        self.strict = strict
        self.folder = Path(path).expanduser()
        self._left_out: list[int] = []
        if not self.folder.is_dir() and (path.count("/") != 1 or path[0] in "/.~"):
            raise ValueError(f"path should be a folder, or a repository of the hub as in owner/name, and {path} is neither")
        if not _is_installed():
            raise ValueError('it is read by the package datasets, which is missing: pip install "ganexp[datasets]"')

    def fingerprint(self) -> list[object]:
        """What the library says of the content and how it came about, and what is read of it."""
        return [self._table._fingerprint, *self._columns, self._left_out]

    def digest(self) -> str:
        """Return what identifies images and labels wherever they lie: all sizes and labels, and how some images begin."""
        rows, labels = self._rows(), self._labels or [-1] * len(self._table)
        names = [(f"{place}/{label}", size) for place, (label, size) in enumerate(zip(labels, rows.sizes(), strict=True))]
        return of_files(Path(), names, lambda path, length: rows.content(int(path.parts[0]))[:length])

    def load(self) -> MapStyle[Tensor]:
        """Return a map-style dataset of `(C, H, W)`, uint8, decoded as it is read.

        Raises:
            OSError: The set cannot be had, has no such split or column, or an image is smaller and the set is `strict`;
                `fingerprint`, `digest`, `classes` and `labels` raise it as well.
        """
        rows = self._rows()
        size = self.shape[1], self.shape[2]
        looked_at = [Path(str(index)) for index in range(len(rows))]
        looked_at = looked_at if self.strict else list(sample(looked_at))
        found = [(rows.name(int(path.name)), own) for path, own in smaller(looked_at, size, rows.open)]
        report_smaller(printable(self.path), found, len(looked_at), len(rows), size, strict=self.strict)
        return rows

    def skip(self, corrupt: dict[int, str]) -> None:
        """Leave out images from now on, given by their places in what `load` has returned, each with a sentence about it.

        Raises:
            OSError: No image would be left.
        """
        count = len(self._table)
        if len(corrupt) == count:
            raise OSError(f"none of the images in {printable(self.path)} can be decoded: {corrupt[0]}")
        self.classes  # noqa: B018 (counted while all are there)
        report_skipped(printable(self.path), [corrupt[index] for index in sorted(corrupt)], count)
        kept = [index for index in range(count) if index not in corrupt]
        self._left_out = sorted(corrupt)
        self._labels = self._labels and [self._labels[index] for index in kept]
        self._table = self._table.select(kept)

    @functools.cached_property
    def classes(self) -> int:  # type: ignore[override]  # read when it is first needed
        """The number of classes; 0 without labels."""
        names = getattr(self._table.features.get(self._columns[1]), "names", None)
        return len(names) if names else max(self._labels, default=-1) + 1 if self._labels else 0

    def labels(self) -> Tensor:
        """Return the class of each image, `(N,)`, int64, in the order of `load`.

        Raises:
            ValueError: There are none, or an image has none.
        """
        if not self._labels:
            raise ValueError(f"{printable(self.path)} has no column of class labels: name one with dataset.label_column=…")
        if min(self._labels) < 0:
            raise ValueError(f"column {self._columns[1]} of {printable(self.path)} leaves images without a class")
        return torch.tensor(self._labels)

    def held_out(self) -> "Hub | None":
        """Return the split on which nothing is trained; None if there is none."""
        split = next((name for name in HELD_OUT if name in self._splits and name != self.split), None)
        if split is None:
            return None
        others = copy.copy(self)
        for name in ("_table", "_columns", "_labels", "classes"):
            vars(others).pop(name, None)
        others.split, others._left_out = split, []
        return others

    @property
    def is_here(self) -> bool:
        """Whether it is a folder, or a repository that has been downloaded."""
        return self.folder.is_dir() or "_splits" in vars(self)

    @functools.cached_property
    def _splits(self) -> "datasets.DatasetDict":
        """Read every split, and download it unless it is in the library's cache."""
        import datasets

        with _saying_what_is_wrong(self), _without_bars(self.folder.is_dir()):
            if (self.folder / "dataset_dict.json").exists():
                found: Any = datasets.load_from_disk(str(self.folder))
            elif (self.folder / "state.json").exists():
                found = {self.split: datasets.load_from_disk(str(self.folder))}
            else:
                where = str(self.folder) if self.folder.is_dir() else self.path
                found = datasets.load_dataset(where, self.subset, revision=self.revision)
        return found

    @functools.cached_property
    def _table(self) -> "datasets.Dataset":
        if self.split not in self._splits:
            raise OSError(
                f"{printable(self.path)} has no split {self.split}: choose dataset.split from {_listed(self._splits)}"
            )
        table = self._splits[self.split]
        if not len(table):
            raise OSError(f"split {self.split} of {printable(self.path)} is empty")
        return table

    @functools.cached_property
    def _columns(self) -> tuple[str, str]:
        """Return the columns of images and of labels; an empty name for no labels."""
        import datasets

        features = self._table.features
        images = [name for name, one in features.items() if isinstance(one, datasets.Image)]
        classes = [name for name, one in features.items() if isinstance(one, datasets.ClassLabel)]
        image = self._column("image_column", images, "images")
        if image not in images:
            raise OSError(f"column {image} of {printable(self.path)} holds no images: choose dataset.image_column={images[0]}")
        return image, self._column("label_column", classes, "class labels") if classes or self.label_column != AUTO else ""

    def _column(self, key: str, found: list[str], kind: str) -> str:
        asked: str = getattr(self, key)
        if asked != AUTO:
            if asked not in self._table.features:
                raise OSError(
                    f"{printable(self.path)} has no column {asked}: choose dataset.{key} from {_listed(self._table.features)}"
                )
            return asked
        if not found:
            raise OSError(f"{printable(self.path)} has no column of {kind} but {_listed(self._table.features)}")
        if len(found) > 1:
            raise OSError(f"{printable(self.path)} has several columns of {kind}: choose dataset.{key} from {_listed(found)}")
        return found[0]

    @functools.cached_property
    def _labels(self) -> list[int]:
        column = self._columns[1]
        if not column:
            return []
        values = np.asarray(self._table.with_format("numpy")[column][:])
        if values.dtype.kind in "iu":
            return [int(one) for one in values]
        if not all(isinstance(one, str) for one in values.tolist()):
            raise OSError(
                f"column {column} of {printable(self.path)} holds neither integers nor texts: choose another "
                "dataset.label_column"
            )
        every = (table.unique(column) for table in self._splits.values() if column in table.features)
        places = {name: place for place, name in enumerate(sorted(set().union(*every)))}
        return [places[one] for one in values.tolist()]

    def _rows(self) -> "_Rows":
        return _Rows(self._table, self._columns[0], self.shape, f"{self.path}/{self.split}")


class _Rows(MapStyle[Tensor]):
    """Images by their rows, as bytes or as files, decoded here and not by the library, whose rules are others."""

    def __init__(self, table: "datasets.Dataset", column: str, shape: tuple[int, ...], where: str) -> None:
        import datasets

        self.column = column
        self.table = table.select_columns([column]).cast_column(column, datasets.Image(decode=False))
        self.channels, height, width = shape
        self.size = height, width
        self.where = where

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> Tensor:
        return decoded(Path(self.name(index)), self.size, self.channels, read=lambda _: self.content(index))

    def name(self, index: int) -> str:
        """Return what an image is called: its row, and its file if it has a name."""
        path = self.table[index][self.column]["path"]
        return f"{self.where}/{index}" + (f" ({Path(path).name})" if path else "")

    def content(self, index: int) -> bytes:
        """Return an image as it is stored."""
        found = self.table[index][self.column]
        return found["bytes"] if found["bytes"] is not None else Path(found["path"]).read_bytes()

    def sizes(self) -> Iterator[int]:
        """Yield how long each image is, in bytes, without reading those that lie in a table."""
        from pyarrow import compute

        for batch in self.table.with_format("arrow").iter(1000):
            lengths, paths = (compute.struct_field(batch[self.column], name) for name in ("bytes", "path"))
            for length, path in zip(compute.binary_length(lengths).to_pylist(), paths.to_pylist(), strict=True):
                yield Path(path).stat().st_size if length is None else length

    def open(self, path: Path) -> IO[bytes]:
        """Open an image that is given by its row."""
        return io.BytesIO(self.content(int(path.name)))


def _is_installed() -> bool:
    from importlib.util import find_spec

    return find_spec("datasets") is not None


@contextmanager
def _saying_what_is_wrong(of: Hub) -> Iterator[None]:
    """Let the library read a set, and say in one sentence why it cannot.

    Raises:
        OSError: It cannot.
    """
    try:
        yield
    except Exception as error:  # the library, the hub's client and pyarrow each have their own
        reason = " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
        remedy = "" if of.folder.is_dir() else "; without a network, only what was downloaded before can be read"
        raise OSError(f"{printable(of.path)} cannot be read by the package datasets ({reason}){remedy}") from error


@contextmanager
def _without_bars(wanted: bool) -> Iterator[None]:
    """Keep the library's progress bars from the terminal, if that is wanted."""
    from datasets.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    before = are_progress_bars_disabled()
    if wanted:
        disable_progress_bars()
    try:
        yield
    finally:
        if not before:
            enable_progress_bars()


def _listed(names: Any) -> str:
    return ", ".join(map(str, names))
