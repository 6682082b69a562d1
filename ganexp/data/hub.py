"""Images that the library `datasets` reads: sets of the Hugging Face Hub, and files in the layouts that it knows."""

import copy
import functools
import importlib.util
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.arrangement import DOCUMENT, classes_by_document
from ganexp.data.corrupt import report_skipped
from ganexp.data.dataset import Range, Size
from ganexp.data.decoding import decoded
from ganexp.data.digest import of_files
from ganexp.data.encoded import EncodedImages
from ganexp.data.folder import is_hidden
from ganexp.printable import one_line, printable
from ganexp.ranges import checked

if TYPE_CHECKING:
    import datasets

MOST_CLASSES = 2**20
HELD_OUT = ("test", "validation")
"""Splits that count as held out; the first one that exists is taken."""
AUTO = "auto"
KEY_OF_TAR = "__key__"
"""The column of the names of samples, which only tar files in WebDataset's layout have."""
LABELS_OF_TAR = ("cls", "json.label")


class Hub(EncodedImages):
    """A split of a set that `datasets.load_dataset` reads, without streaming, with images resized as by `ImageFolder`.

    The library downloads a set once, into its own cache (`HF_HOME`); what it has there needs no network. A folder may hold
    images in sub-folders by class, parquet files, tar files in WebDataset's layout, or what `save_to_disk` has written. No code
    of a repository is run.

    Args:
        path: A folder, a repository of the hub, `owner/name`, or tar files in WebDataset's layout: a path or URL that ends in
            `.tar`, with wildcards (`train-*.tar`) for several, or a list of these, which are all of `split`.
        split: Which part of it is trained on. `test` or else `validation` counts as held out, if there is such a split.
        subset: Which of a repository's configurations; its default one otherwise.
        revision: A branch, tag or commit of the repository; its main branch otherwise.
        image_column: The column of the images; `auto` takes the only one.
        label_column: The column of the classes: class labels, integers from 0 on, or texts; `auto` takes the only one of class
            labels, if there is one; of tar files, `cls` or else `json.label`. The values that occur in the split are numbered
            from 0 on.
        image_size: Side of the square images; or height and width, which images are scaled to cover.
        channels: 3 for colour, 1 for grey.
        range: As in `ImageFolder`.
        strict: As in `ImageFolder`.
    """

    @checked
    def __init__(
        self,
        path: str | list[str],
        *,
        split: str = "train",
        subset: str | None = None,
        revision: str | None = None,
        image_column: str = AUTO,
        label_column: str = AUTO,
        image_size: Size = 64,
        channels: Literal[1, 3] = 3,
        range: Range | None = None,
        strict: bool = False,
    ) -> None:
        self.paths = [os.path.expanduser(place) for place in ([path] if isinstance(path, str) else path)]
        super().__init__(", ".join(self.paths), image_size, channels, range, strict=strict)
        self.split, self.subset, self.revision = split, subset, revision
        self.image_column, self.label_column = image_column, label_column
        self._left_out: list[int] = []
        self._folder = Path(self.paths[0]) if len(self.paths) == 1 and Path(self.paths[0]).is_dir() else None
        self._tars = self.paths if not self._folder and all(place.endswith(".tar") for place in self.paths) else []
        is_name = isinstance(path, str) and path.count("/") == 1 and path[0] not in "/.~"
        if not (self._folder or self._tars or is_name):
            raise ValueError(
                f"path should be a folder, tar files as in train-*.tar, or a repository of the hub as in owner/name, and "
                f"{path} is none of these"
            )
        if revision and (self._folder or self._tars):
            kind = "a folder" if self._folder else "files"
            raise ValueError(f"revision is of a repository, and {path} is {kind}: leave dataset.revision out")
        if importlib.util.find_spec("datasets") is None:
            raise ValueError('it is read by the package datasets, which is missing: pip install "ganexp[datasets]"')

    def fingerprint(self) -> list[object]:
        """Return the library's fingerprint of the content, with the columns and images that are read."""
        if self.strict:  # a set that is in the cache is not loaded
            self.report_sizes()
        return [self._table._fingerprint, *self._columns, self._left_out, *([self.value_range] if self.value_range else [])]

    def digest(self) -> str:
        """Return a digest of all sizes and labels, and of the first bytes of some images."""
        labels = self._labels or [-1] * len(self._table)
        rows = enumerate(zip(labels, self._rows.sizes(), strict=True))
        names = [(f"{row}/{label}", size) for row, (label, size) in rows]
        return of_files(names, lambda row, length: self._rows.content(row)[:length])

    def load(self) -> MapStyle[Tensor]:
        """Return a map-style dataset of `(C, H, W)`, uint8, decoded as it is read."""
        self.report_sizes()
        self._rows.value_range = self.value_range
        return self._rows

    def skip(self, corrupt: dict[int, str]) -> None:
        count = len(self._table)
        report_skipped(self.where, corrupt, count)
        kept = [index for index in range(count) if index not in corrupt]
        self._left_out = sorted(corrupt)
        self._labels = self._labels and [self._labels[index] for index in kept]
        self._table = self._table.select(kept)
        for name in ("_rows", "headers"):
            vars(self).pop(name, None)

    @property
    def classes(self) -> int:  # type: ignore[override]  # read when it is first needed
        return len(self._numbered)

    @functools.cached_property
    def class_names(self) -> list[str]:  # type: ignore[override]  # read when it is first needed
        """The names that class labels were given, or else the labels themselves."""
        names = getattr(self._table.features[self._columns[1]], "names", None) if self._numbered else None
        return [names[value] if names else str(value) for value in self._numbered]

    def labels(self) -> Tensor:
        if not self._labels:
            raise ValueError(f"{self.where} has no column of class labels: name one with dataset.label_column=…")
        if min(self._labels) < 0:
            raise ValueError(
                f"column {self._columns[1]} of {self.where} leaves images of split {self.split} without a class, or "
                "with one that is not trained on"
            )
        return torch.tensor(self._labels)

    def held_out(self) -> "Hub | None":
        split = next((name for name in HELD_OUT if name in self._splits and name != self.split), None)
        if split is None:
            return None
        self.class_names  # noqa: B018 (they number those of the images held out as well)
        others = copy.copy(self)
        for name in ("_table", "_rows", "_columns", "_labels", "headers", "value_range"):
            vars(others).pop(name, None)
        others.split, others._left_out, others._sizes_reported, others.like = split, [], False, self
        return others

    @property
    def is_here(self) -> bool:
        """Whether it is a folder, or a repository that has been downloaded."""
        local = self._tars and not any("://" in path for path in self._tars)
        return bool(self._folder or local) or "_splits" in vars(self)

    @property
    def images(self) -> Sequence[int]:
        return range(len(self._table))

    def open(self, image: int) -> IO[bytes]:
        return io.BytesIO(self._rows.content(image))

    def name_of(self, image: int) -> str:
        return self._rows.name(image)

    @functools.cached_property
    def _splits(self) -> "dict[str, datasets.Dataset]":
        """All splits, downloaded unless they are in the library's cache."""
        import datasets

        folder, path = self._folder, self.paths[0]
        is_saved = folder is not None and any((folder / name).exists() for name in ("dataset_dict.json", "state.json"))
        strange = folder and next((path for path in folder.rglob("*") if not path.is_file() and not path.is_dir()), None)
        if strange:  # a pipe would be waited for
            raise OSError(f"{printable(strange)} is neither a file nor a folder: remove it")
        document = folder / DOCUMENT if folder else None
        if folder and document and document.is_file() and classes_by_document(document.read_bytes(), [], folder) is not None:
            raise OSError(
                f"{printable(document)} is of StyleGAN's tools, and the package datasets does not read it: choose "
                "dataset=image_folder"
            )
        settings: dict[str, Any] = {"path": path, "name": self.subset, "revision": self.revision}
        if self._tars:
            settings = {"path": "webdataset", "name": self.subset, "data_files": {self.split: self._tars}}
        try:
            with _without_bars(self.is_here):
                if not self._tars and not is_saved:
                    settings |= self._visible_files(path)
                content: Any = datasets.load_from_disk(path) if is_saved else datasets.load_dataset(**settings)
        except Exception as error:  # the library, the hub's client and pyarrow each have their own errors
            reason = one_line(error)
            remedy = (
                ""
                if folder or self._tars
                else "; there is no folder of that name, and of a repository only what was downloaded before can be read "
                "without a network: correct dataset.path, dataset.subset or dataset.revision"
            )
            raise OSError(f"{self.where} cannot be read by the package datasets ({reason}){remedy}") from error
        if is_saved and self.subset:
            raise OSError(f"{self.where} was saved as a whole, without subsets: leave dataset.subset out")
        splits = content if isinstance(content, dict) else {str(content.split or "train"): content}
        for name, table in splits.items():
            if any(isinstance(feature, dict) for feature in table.features.values()):  # such as json in tar files
                splits[name] = table.flatten()  # whose fields become columns such as json.label
        return splits

    def _visible_files(self, path: str) -> dict[str, Any]:
        """Return the files of each split without hidden ones, as an argument; nothing if there are no hidden ones."""
        import datasets

        builder = datasets.load_dataset_builder(path, self.subset, revision=self.revision)
        base = f"{self._folder.resolve() if self._folder else builder.base_path}/"
        files = builder.config.data_files or {}
        visible = {split: [file for file in names if not is_hidden(file.removeprefix(base))] for split, names in files.items()}
        return {"data_files": {split: names for split, names in visible.items() if names}} if visible != files else {}

    @functools.cached_property
    def _table(self) -> "datasets.Dataset":
        if self.split not in self._splits:
            raise OSError(f"{self.where} has no split {self.split}: choose dataset.split from {_listed(self._splits)}")
        table = self._splits[self.split]
        if not len(table):
            raise OSError(f"split {self.split} of {self.where} is empty")
        return table

    @functools.cached_property
    def _columns(self) -> tuple[str, str]:
        """Return the columns of images and of labels; an empty name for no labels."""
        import datasets

        features = self._table.features
        images = [name for name, kind in features.items() if isinstance(kind, datasets.Image)]
        classes = [name for name, kind in features.items() if isinstance(kind, datasets.ClassLabel)]
        values = {name: kind.dtype for name, kind in features.items() if isinstance(kind, datasets.Value)}
        others = [name for name, dtype in values.items() if dtype.startswith(("string", "large_string", "int", "uint"))]
        if not classes and KEY_OF_TAR in features:
            classes = [name for name in LABELS_OF_TAR if name in others][:1]
        return (
            self._column("image_column", images, images, "images"),
            self._column("label_column", classes, list(dict.fromkeys([*classes, *others])), "classes")
            if classes or self.label_column != AUTO
            else "",
        )

    def _column(self, key: str, declared: list[str], fitting: list[str], kind: str) -> str:
        """Return the column that a key names, if it fits, or with `auto` the only one that is declared to be of the kind."""
        chosen: str = getattr(self, key)
        remedy = f": choose dataset.{key} from {_listed(fitting)}" if fitting else f", but {_listed(self._table.features)}"
        if chosen != AUTO and chosen not in fitting:
            raise OSError(f"{self.where} has no column {chosen} of {kind}{remedy}")
        if chosen == AUTO and len(declared) != 1:
            raise OSError(f"{self.where} has {'several columns' if declared else 'no column'} of {kind}{remedy}")
        return declared[0] if chosen == AUTO else chosen

    @functools.cached_property
    def _numbered(self) -> dict[Any, int]:
        """The class of each value that occurs in the label column; negative numbers have none."""
        column = self._columns[1]
        values = set(self._table.unique(column)) - {None} if column else set()
        kept = sorted(value for value in values if isinstance(value, str) or value >= 0)
        if len(kept) > MOST_CLASSES:
            raise OSError(
                f"column {column} of {self.where} has {len(kept):,} values, which are no classes: choose "
                "another dataset.label_column"
            )
        return {value: place for place, value in enumerate(kept)}

    @functools.cached_property
    def _labels(self) -> list[int]:
        column = self._columns[1]
        return [self._numbered.get(value, -1) for value in self._table[column][:]] if column else []

    @functools.cached_property
    def _rows(self) -> "_Rows":
        return _Rows(self._table, self._columns[0], self.shape, f"{self.where}/{self.split}")


class _Rows(MapStyle[Tensor]):
    """Images by row, stored as bytes or as files; they are decoded here, because the library has other rules."""

    value_range: Range | None = None

    def __init__(self, table: "datasets.Dataset", column: str, shape: tuple[int, ...], where: str) -> None:
        import datasets

        self.column, self.shape, self.where = column, shape, where
        self.table = table.select_columns([column]).cast_column(column, datasets.Image(decode=False))

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> Tensor:
        stored = self._stored(index)
        path = Path(self._called(index, stored))
        return decoded(path, self.shape, value_range=self.value_range, read=lambda _: _content(stored))

    def name(self, index: int) -> str:
        """Return the name of an image: its row, and its file if it has one."""
        return self._called(index, self._stored(index))

    def content(self, index: int) -> bytes:
        """Return an image's bytes as stored; if the row has no image, empty bytes, which cannot be decoded."""
        return _content(self._stored(index))

    def _stored(self, index: int) -> dict[str, Any]:
        return self.table[index][self.column] or {"bytes": None, "path": None}

    def _called(self, index: int, stored: dict[str, Any]) -> str:
        return f"{self.where}/{index}" + (f" ({Path(stored['path']).name})" if stored["path"] else "")

    def sizes(self) -> Iterator[int]:
        """Yield the size of each image, in bytes, without reading those that lie in a table."""
        from pyarrow import compute

        for batch in self.table.with_format("arrow").iter(1000):
            lengths, paths = (compute.struct_field(batch[self.column], name) for name in ("bytes", "path"))
            for length, path in zip(compute.binary_length(lengths).to_pylist(), paths.to_pylist(), strict=True):
                yield length if length is not None else Path(path).stat().st_size if path else 0


def _content(stored: dict[str, Any]) -> bytes:
    if stored["bytes"] is not None:
        return stored["bytes"]
    if not stored["path"]:
        return b""
    if not Path(stored["path"]).is_file():  # a device may have no end, and a pipe no beginning
        raise OSError(f"there is no file {printable(stored['path'])}")
    return Path(stored["path"]).read_bytes()


@contextmanager
def _without_bars(wanted: bool) -> Iterator[None]:
    """Hide the library's progress bars, if `wanted`."""
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
    return ", ".join(printable(str(name)) for name in names)
