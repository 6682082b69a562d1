"""The files of the cache: arrays of uint8 `(N, C, H, W)`, each written whole or not at all.

A file is called `<name>-<N>.npy`, so that one that was cut off or emptied is not taken for a smaller set. The least recently
used ones are deleted first.
"""

import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from ganexp.printable import printable

log = logging.getLogger(__name__)
BOUND = 20 * 2**30
"""The most bytes that a folder holds besides the newest set. Deleting a file that a run has mapped does not hurt the run."""


def read(folder: Path, name: str, shape: tuple[int, ...]) -> Tensor | None:
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


def write(folder: Path, name: str, batches: Iterable[Tensor], shape: tuple[int, ...]) -> None:
    """Write batch after batch, under the set's lock; not through a memory map, where a full disk kills by a signal.

    Raises:
        OSError: The disk has no room; nothing is left behind.
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


def remove_unfinished(folder: Path) -> None:
    """Delete the unfinished files of killed processes; those that are being written are locked."""
    for unfinished in folder.glob("*.unfinished"):
        with suppress(Timeout, OSError), lock(folder, unfinished.stem).acquire(timeout=0):
            unfinished.unlink(missing_ok=True)


def prune(folder: Path, newest: str) -> None:
    """Report how large the folder is, and delete the least recently used sets until the others fit."""
    sets = sorted(_sizes(folder), key=lambda one: (one[0].name.startswith(f"{newest}-"), one[2]), reverse=True)
    newest_mib, all_mib = (sum(size for _, size, _ in some) / 2**20 for some in (sets[:1], sets))
    log.info("Decoded images are kept in %s: %.1f MiB, of %.1f MiB there.", printable(folder), newest_mib, all_mib)
    room = BOUND
    for path, size, _ in sets[1:]:
        room -= size
        if room < 0:
            with suppress(OSError):  # another process prunes as well, or another user owns it
                path.unlink()
                log.info(
                    "%s is deleted: it was unused for longest, and %d GiB are kept at most.", printable(path), BOUND // 2**30
                )


def _sizes(folder: Path) -> list[tuple[Path, int, float]]:
    """Return path, bytes and time of last use of every set."""
    found = []
    for path in folder.glob("*.npy"):
        with suppress(FileNotFoundError):  # another process prunes as well
            stat = path.stat()
            found.append((path, stat.st_size, stat.st_mtime))
    return found
