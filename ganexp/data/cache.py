"""The cache of decoded data sets on the disk: images are read, scaled and cropped once, not once per run.

A set is one file, mapped into memory, so that concurrent jobs share it: an array of uint8 `(N, C, H, W)`, written whole or not
at all. It is called `<name>-<N>.npy`, so that one that was cut off or emptied is not taken for a smaller set, and its name has
a hash of everything that its content depends on. If several jobs start at once, one decodes the set, and the others use its
file. Where a set cannot be kept, the run goes on without the cache.
"""

import hashlib
import json
import logging
import math
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor
from torch.utils.data import Dataset as MapStyle
from torch.utils.data import default_convert

from ganexp.data import corrupt
from ganexp.data.corrupt import Corrupt, TolerantDataset
from ganexp.data.dataset import Dataset
from ganexp.data.placement import Place, is_resident
from ganexp.data.workers import loader
from ganexp.printable import printable

log = logging.getLogger(__name__)
BATCH = 256
VERSION = 3
"""Version of the decoding, as far as it changes images."""
BOUND = 20 * 2**30
"""The most bytes that a folder holds besides the newest set: the sets that were unused for longest are deleted first.

Deleting a file that a run has mapped does not hurt the run.
"""


def default_folder() -> Path:
    """Return the folder of decoded sets: `decoded` in `$GANEXP_CACHE`, else in `ganexp` in the user's cache folder.

    It holds at most `BOUND` bytes beside the newest set, and may be deleted at any time.
    """
    of_user = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "ganexp")
    return Path(os.environ.get("GANEXP_CACHE") or of_user).expanduser() / "decoded"


def load(
    dataset: Dataset,
    folder: Path,
    *,
    place: Place = "auto",
    device: torch.device | str = "cpu",
    workers: int = 0,
) -> Tensor | MapStyle[Tensor]:
    """Load a dataset, from the cache if it is there, and keep it there if possible.

    A map-style dataset is decoded as a whole, by `workers` processes, only if the result is to be resident, or with `auto`
    fits; otherwise it stays as it is. Datasets without a `fingerprint`, and points, are not kept.

    Corrupt images of a dataset that is not `strict` are passed to its `skip`, and it is loaded without them. Of a dataset that
    has `parts`, each part is cached by itself.
    """
    if dataset.parts:
        return dataset.joined(*(load(part, folder, place=place, device=device, workers=workers) for part in dataset.parts))
    if dataset.fingerprint() is None:
        return dataset.load()
    known = {} if dataset.strict else corrupt.recall(folder, _name(dataset))
    if known:
        dataset.skip(known)
    try:
        return _load(dataset, folder, place, device, workers)
    except Corrupt as error:
        if dataset.strict:
            raise
        dataset.skip(error.images)
        return _load(dataset, folder, place, device, workers)


def _load(dataset: Dataset, folder: Path, place: Place, device: torch.device | str, workers: int) -> Tensor | MapStyle[Tensor]:
    cached = _read(folder, _name(dataset), dataset.shape)
    if cached is not None:
        return cached
    data = dataset.load()
    if isinstance(data, Tensor) and data.dtype != torch.uint8:
        return data
    shape = (len(data), *dataset.shape)  # type: ignore[arg-type]
    if not isinstance(data, Tensor) and not is_resident(place, math.prod(shape), torch.device(device)):
        return data
    if not isinstance(data, Tensor) and not dataset.strict:
        data = TolerantDataset(data)
    try:
        return _keep(data, folder, _name(dataset), shape, workers)  # named again, since a download changes the name
    except OSError as error:
        if error.errno is None:  # an image is at fault, not the cache's disk, quota, limit or permissions
            raise
        log.warning("The decoded images are not kept in %s (%s).", folder, error.strerror)
        return _whole(data, shape, workers)


def _keep(data: Tensor | MapStyle[Tensor], folder: Path, name: str, shape: tuple[int, ...], workers: int) -> Tensor:
    """Decode a set into the cache, unless the disk lacks room or another job has done it meanwhile."""
    _remove_unfinished(folder)
    if not _has_room(folder, math.prod(shape)):
        return _whole(data, shape, workers)
    with lock(folder, name):
        cached = _read(folder, name, shape[1:])
        if cached is not None:
            return cached
        known = corrupt.recall(folder, name)
        if known:
            raise Corrupt(known)
        try:
            _write(folder, name, _batches(data, workers), shape)
        except Corrupt as error:
            corrupt.note(folder, name, error.images)
            raise
        cached = _read(folder, name, shape[1:])
    _prune(folder, name)
    assert cached is not None
    return cached


def _name(dataset: Dataset) -> str:
    content = json.dumps([VERSION, type(dataset).__qualname__, *dataset.shape, dataset.fingerprint()])
    return f"{type(dataset).__name__}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _whole(data: Tensor | MapStyle[Tensor], shape: tuple[int, ...], workers: int) -> Tensor:
    if isinstance(data, Tensor):
        return data
    whole, begin = torch.empty(shape, dtype=torch.uint8), 0
    for batch in _batches(data, workers):
        whole[begin : begin + len(batch)] = batch
        begin += len(batch)
    return whole


def _batches(data: Tensor | MapStyle[Tensor], workers: int) -> Iterable[Tensor]:
    if isinstance(data, Tensor):
        yield data
        return
    from tqdm import tqdm

    corrupt_images: dict[int, str] = {}
    collate = {"collate_fn": default_convert} if isinstance(data, TolerantDataset) else {}
    with tqdm(total=len(data), desc="Decoding images, once", unit="image", disable=None) as bar:  # type: ignore[arg-type]
        for batch in loader(data, workers, torch.Generator(), batch_size=BATCH, **collate):
            images, broken = batch if isinstance(data, TolerantDataset) else (batch, {})
            corrupt_images |= broken
            bar.update(len(images) + len(broken))
            if len(images):  # in a batch, all may be corrupt
                if images.dtype != torch.uint8:
                    dtype = str(images.dtype).removeprefix("torch.")
                    raise OSError(f"images that are kept should be uint8, and these are {dtype}: return no fingerprint")
                yield images
    if corrupt_images:
        raise Corrupt(corrupt_images)


def _has_room(folder: Path, size: int) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 2 * size


def _read(folder: Path, name: str, shape: tuple[int, ...]) -> Tensor | None:
    """Map a set of samples of this shape into memory, and mark it as used; return None if no complete file is there."""
    for path in folder.glob(f"{name}-*.npy"):
        try:
            images = np.lib.format.open_memmap(path, mode="c")
        except Exception:  # NumPy's errors for broken files have no common type
            continue
        n = len(images) if images.ndim else 0
        if images.dtype == np.uint8 and images.shape == (n, *shape) and n > 0 and path.stem == f"{name}-{n}":
            with suppress(OSError):  # the file is another user's
                os.utime(path)  # so that it counts as used
            return torch.from_numpy(images)
    return None


def lock(folder: Path, name: str) -> FileLock:
    """Return the lock of a set; the system releases it when the process that holds it ends, however it ends."""
    return FileLock(folder / f"{name}.lock")


def _write(folder: Path, name: str, batches: Iterable[Tensor], shape: tuple[int, ...]) -> None:
    """Write batch after batch, under the set's lock; on a full disk, nothing is left behind.

    Writing to a memory map would end the process by a signal there.
    """
    unfinished = folder / f"{name}.unfinished"
    try:
        with unfinished.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
            for batch in batches:
                file.write(batch.contiguous().numpy().data)
            file.flush()
            os.fsync(file.fileno())  # else a loss of power may leave a file of the right size, full of zeros
        unfinished.replace(folder / f"{name}-{shape[0]}.npy")
    finally:
        unfinished.unlink(missing_ok=True)


def _remove_unfinished(folder: Path) -> None:
    """Delete the unfinished sets of killed processes; those that are being written are locked."""
    for unfinished in folder.glob("[!.]*.unfinished"):  # a name with a dot first is that of another file
        with suppress(Timeout, OSError), lock(folder, unfinished.stem).acquire(timeout=0):
            unfinished.unlink(missing_ok=True)


def _prune(folder: Path, newest: str) -> None:
    """Report how large the folder is, and delete the least recently used sets until the others fit."""
    sets = []
    for path in folder.glob("*.npy"):
        with suppress(FileNotFoundError):  # another process prunes as well
            stat = path.stat()
            sets.append((path.name.startswith(f"{newest}-"), stat.st_mtime, stat.st_size, path))
    sets.sort(reverse=True)
    newest_mib, all_mib = (sum(size for *_, size, _ in group) / 2**20 for group in (sets[:1], sets))
    log.info("Decoded images are kept in %s: %.1f MiB, of %.1f MiB there.", printable(folder), newest_mib, all_mib)
    room = BOUND
    for *_, size, path in sets[1:]:
        room -= size
        if room < 0:
            with suppress(OSError):  # another process prunes as well, or another user owns it
                path.unlink()
                log.info(
                    "%s is deleted: it was unused for longest, and %d GiB are kept at most.", printable(path), BOUND // 2**30
                )
