"""The contract of a dataset."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from torch import Tensor
from torch.utils.data import Dataset as MapStyle


class Dataset(Protocol):
    """What the builder needs to know of a dataset; any object with these two members is one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample: `(C, H, W)` for images, `(2,)` for points of the plane."""
        ...

    def load(self) -> Tensor | MapStyle[Tensor]:
        """Read the data: images as uint8, points as float."""
        ...

    # A dataset that takes time to decode may also have a method `fingerprint()`, which returns plain values that say what
    # else than its class and shape its content depends on; `ganexp.data.cache` then keeps what it has decoded.


def image_shape(channels: int, image_size: int) -> tuple[int, int, int]:
    """Return `(C, H, W)` of square images, or refuse a size that no image can have."""
    if not 1 <= image_size <= 4096:
        raise ValueError(f"image_size must lie in [1, 4096], not {image_size}")
    return channels, image_size, image_size


def file_stamps(files: Iterable[Path], folder: Path) -> list[tuple[str, int, int]]:
    """Return what tells that files have changed: name below a folder, size and time of each, in order."""
    stats = [(str(path.relative_to(folder)), path.stat()) for path in sorted(files)]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
