"""Decoded sets, kept on the disk: an image is read, scaled and cropped once, not once per run.

A set is one `.npy` file of uint8 `(N, C, H, W)`, mapped into memory, so that jobs side by side share it. Its name has a
hash of everything that its content depends on. It is written beside and renamed, under a lock: of several jobs that start
at once one decodes, and the others find it done. The folder may be deleted at any time.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.dataset import Dataset
from ganexp.data.placement import Place, is_resident
from ganexp.data.workers import loader

BATCH = 256
VERSION = 1
"""Of how images are decoded, as far as it changes them."""


def load(
    dataset: Dataset,
    folder: Path,
    *,
    place: Place = "auto",
    device: torch.device | str = "cpu",
    workers: int = 0,
) -> Tensor | MapStyle[Tensor]:
    """Load a dataset, from the cache if it is there, and leave it there if it can be.

    Images that lie in files of their own are decoded as a whole, by `workers` processes, only if the result is to be
    resident, or with `auto` fits; else they stay a map-style dataset. Datasets without a `fingerprint` are not kept.

    Raises:
        OSError: The data cannot be had, or an image cannot be decoded.
    """
    fingerprint = getattr(dataset, "fingerprint", None)
    if fingerprint is None:
        return dataset.load()
    content = json.dumps([VERSION, type(dataset).__qualname__, *dataset.shape, fingerprint()])
    path = folder / f"{type(dataset).__name__}-{hashlib.sha256(content.encode()).hexdigest()[:16]}.npy"
    found = _read(path, dataset.shape)
    if found is not None:
        return found
    data = dataset.load()
    n = len(data)  # type: ignore[arg-type]
    size = n * int(np.prod(dataset.shape))
    if not isinstance(data, Tensor) and not is_resident(place, size, torch.device(device)):
        return data
    batches = [data] if isinstance(data, Tensor) else _decoded(data, n, workers)
    if not _has_room(folder, size):
        return torch.cat(list(batches))
    with FileLock(f"{path}.lock"):
        found = _read(path, dataset.shape)  # another job may have written it meanwhile
        if found is not None:
            return found
        _write(path, batches, (n, *dataset.shape))
    found = _read(path, dataset.shape)
    assert found is not None
    return found


def _read(path: Path, shape: tuple[int, ...]) -> Tensor | None:
    try:
        images = np.load(path, mmap_mode="c")
    except (OSError, ValueError):
        return None
    return torch.from_numpy(images) if images.dtype == np.uint8 and images.shape[1:] == shape else None


def _write(path: Path, batches: Iterable[Tensor], shape: tuple[int, ...]) -> None:
    """Write batch after batch, not through a map: a full disk is then an error, not a signal that kills."""
    unfinished = path.with_suffix(".unfinished")
    try:
        with unfinished.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
            for batch in batches:
                file.write(batch.contiguous().numpy().tobytes())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _decoded(data: MapStyle[Tensor], n: int, workers: int) -> Iterable[Tensor]:
    from tqdm import tqdm

    with tqdm(total=n, desc="Decoding images, once", unit="image", disable=None) as bar:
        for batch in loader(data, workers, batch_size=BATCH):
            bar.update(len(batch))
            yield batch


def _has_room(folder: Path, size: int) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 2 * size
