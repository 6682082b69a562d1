"""Where the images of tar files lie, and their labels: found once by reading every header, and kept beside the decoded sets.

The layout is WebDataset's: members whose names are equal up to the first dot after the last slash are one sample.
"""

import hashlib
import json
import logging
import tarfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from ganexp.data.cache import lock
from ganexp.data.folder import EXTENSIONS, LARGEST, TOO_LARGE
from ganexp.data.headers import size_of
from ganexp.data.storage import Storage
from ganexp.documents import atomic_write

log = logging.getLogger(__name__)
VERSION = 4
"""Version of the list: what it holds, and how."""
BLOCK = 512
"""Bytes of a tar file's header, and of the zeros at its end."""
LABELS = (".cls", ".json")
LARGEST_LABEL = 2**20
"""The most bytes of a member with a label."""


@dataclass(frozen=True)
class Index:
    """The images of some shards, in the order in which they lie there: one array of `(N,)` for each fact.

    Args:
        shard: Which of the shards.
        start, size: Of the image's bytes.
        label: Its class, or -1 for none.
        width, height: In pixels, turned as when it is decoded; 0 if the member does not begin like an image.
        name: Of the member, as bytes.
        skipped: Kinds of members that are neither images nor labels, each as often as it occurs.
    """

    shard: np.ndarray
    start: np.ndarray
    size: np.ndarray
    label: np.ndarray
    width: np.ndarray
    height: np.ndarray
    name: np.ndarray
    skipped: np.ndarray

    def __len__(self) -> int:
        return len(self.shard)

    def where(self, chosen: np.ndarray) -> Self:
        """Return the index of some images, given by a mask or by their places."""
        rows = {one.name: getattr(self, one.name)[chosen] for one in fields(self) if one.name != "skipped"}
        return type(self)(**rows, skipped=self.skipped)


def index_of(storage: Storage, paths: Sequence[str], label: str, folder: Path) -> Index:
    """List shards, or read the list that an earlier run has kept; of several processes that start at once, only one lists.

    Args:
        storage: Where the shards are.
        paths: The paths of the shards, in order.
        label: The key of the class in a sample's `.json`.
        folder: Where lists are kept.

    Raises:
        OSError: A shard is missing, or is not a whole tar file without compression.
    """
    content = json.dumps([VERSION, label, *zip(paths, stamps_of(storage, paths), strict=True)])
    name = f"shards-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    file = folder / f"{name}.npz"
    found = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock(folder, name):
            found = _kept(file)
            if found is None:
                found = _listed(storage, paths, label)
                _keep(found, file)
            return found
    except OSError as error:
        if error.errno is None:  # a shard is at fault, not the disk where the list is kept
            raise
        log.warning("The list of shards is not kept in %s (%s).", folder, error.strerror)
        return _listed(storage, paths, label) if found is None else found


def stamps_of(storage: Storage, paths: Sequence[str]) -> list[list[object]]:
    """Return what shows that shards have changed.

    Raises:
        OSError: A shard is missing or cannot be reached.
    """
    with ThreadPoolExecutor(storage.at_once) as pool:
        return list(pool.map(partial(_told, storage.stamp), paths))


def _kept(file: Path) -> Index | None:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return Index(**arrays)
    except Exception:  # NumPy's errors for broken files have no common type
        return None


def _keep(index: Index, file: Path) -> None:
    with atomic_write(file) as kept:
        np.savez(kept, **{one.name: getattr(index, one.name) for one in fields(index)})


def _listed(storage: Storage, paths: Sequence[str], label: str) -> Index:
    from tqdm import tqdm

    rows: list[tuple[Any, ...]] = []
    skipped: Counter[str] = Counter()

    def read(path: str) -> tuple[list[tuple[Any, ...]], Counter[str]]:
        with storage.open(path) as file:
            return listed(file, label)

    with ThreadPoolExecutor(storage.at_once) as pool, tqdm(total=len(paths), desc="Listing shards, once", disable=None) as bar:
        for number, (found, others) in enumerate(pool.map(partial(_told, read), paths)):
            rows += [(number, *row) for row in found]
            skipped += others
            bar.update()
    *columns, names = zip(*rows, strict=True) if rows else [()] * 7
    numbers = [np.array(one, dtype=np.int64) for one in columns]
    kinds = np.array(sorted(skipped.elements()), dtype=np.str_)
    shard, start, size, labels, width, height = numbers
    return Index(shard, start, size, labels, width, height, np.array(names, dtype=np.bytes_), kinds)


def listed(file: IO[bytes], label: str) -> tuple[list[tuple[Any, ...]], Counter[str]]:
    """Return a row `(start, size, label, width, height, name)` for the image of every sample, and what else lies in a tar file.

    Raises:
        tarfile.TarError: The file is broken or cut off.
    """
    images: dict[str, tuple[Any, ...]] = {}
    labels: dict[str, int] = {}
    skipped: Counter[str] = Counter()
    with tarfile.open(fileobj=file, mode="r:") as archive:
        for member in archive:
            place, _, base = member.name.rpartition("/")
            stem, _, kind = base.partition(".")
            sample, kind = f"{place}/{stem}", f".{kind.lower()}"
            if member.isdir():
                continue
            content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
            if content is None or not stem:
                skipped["hidden" if not stem else "link or special file"] += 1
            elif member.size > (LARGEST_LABEL if kind in LABELS else LARGEST):
                skipped[f"{kind} larger than {LARGEST_LABEL >> 20} MiB" if kind in LABELS else TOO_LARGE] += 1
            elif kind in LABELS:
                found = _label(content.read(), kind, label)
                if found >= 0 and (kind == ".cls" or sample not in labels):
                    labels[sample] = found
            elif kind not in EXTENSIONS:
                skipped[kind if kind != "." else "without extension"] += 1
            elif sample in images:
                skipped["further image of a sample"] += 1
            else:
                pixels = size_of(content.__enter__) or (0, 0)  # it is open
                images[sample] = member.offset_data, member.size, *pixels, member.name
        file.seek(archive.offset)  # tarfile takes an unreadable header for the end
        if file.read(BLOCK) != bytes(BLOCK):
            raise tarfile.ReadError("it is cut off, or broken in the middle")
    rows = [
        (start, size, labels.get(sample, -1), *pixels, name.encode(errors="surrogateescape"))
        for sample, (start, size, *pixels, name) in images.items()
    ]
    return rows, skipped


def _label(content: bytes, kind: str, key: str) -> int:
    """Return the class that a member holds, or -1."""
    try:
        said = int(content) if kind == ".cls" else json.loads(content)[key]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return -1
    return said if type(said) is int and 0 <= said < 2**20 else -1


def _told(action: Callable[[str], Any], path: str) -> Any:
    """Do something with a shard, and if it fails, say in one sentence what is wrong with the shard."""
    try:
        return action(path)
    except FileNotFoundError as error:
        raise OSError(f"the shard {path} is not there") from error
    except tarfile.TarError as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise OSError(f"the shard {path} is no tar file that can be read, uncompressed and whole ({reason})") from error
    except Exception as error:  # each file system has its own errors
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise OSError(f"the shard {path} cannot be read ({reason})") from error
