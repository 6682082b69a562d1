"""The contract of a dataset."""

from pathlib import Path
from typing import Annotated, Protocol

from annotated_types import Ge, Le
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

Side = Annotated[int, Ge(1), Le(4096)]
"""Pixels along one side of a square image."""


class Dataset(Protocol):
    """What the builder needs to know of a dataset; any object with these two members is one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample: `(C, H, W)` for images, `(2,)` for points of the plane."""
        ...

    def load(self) -> Tensor | MapStyle[Tensor]:
        """Read the data: images as uint8, points as float."""
        ...

    # Four further methods are optional. `fingerprint()` returns plain values that say what else than its class and shape the
    # content depends on, on this machine; `ganexp.data.cache` then keeps what has been decoded. `digest()` returns a string
    # that identifies the content wherever it lies; it is kept in checkpoints, and other data are refused when resuming.
    # `labels()` returns the class of each sample, `(N,)`, int64, in the order of `load`; `classes` is then their number.
    # `held_out()` returns a dataset of samples that are not among those of `load`, or None; D's over-fitting is seen on them.


Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp:
    """Return what tells that a file has changed: its size, and its times of modification and of change.

    Copying and unpacking tools set the former, and so may give two contents the same one; the latter is the system's, and tells
    also that a file was renamed or replaced. The inode would tell no more, and network file systems number anew.
    """
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
