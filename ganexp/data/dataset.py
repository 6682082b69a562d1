"""The contract of a dataset."""

from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.modes import Modes
from ganexp.facts import Facts, Misfit

Side = Annotated[int, Ge(1), Le(4096)]
"""Pixels along one side of a square image."""
Size = Side | tuple[Side, Side]
"""Side of square images, or height and width."""


class Dataset:
    """Real samples. A dataset is cheap to construct: nothing is read or downloaded before `load`, beyond what `shape` takes."""

    shape: tuple[int, ...] = ()
    """Of one sample: `(C, H, W)` for images, `(2,)` for points of the plane."""

    classes: int = 0
    """How many classes the labels tell apart; 0 without labels."""

    strict = True
    """Whether an image that cannot be decoded is refused; the others of a set that is not strict are told to `skip` it."""

    modes: Modes | None = None
    """The known modes of the data."""

    stack_of: "Dataset | None" = None
    """The data set of which each channel is an image: its classifier sees every channel by itself."""

    def check(self, run: Facts) -> None:
        """Refuse a run that needs labels or images where there are none.

        Raises:
            Misfit: The run is conditional and there are no classes, or it mirrors what is no image.
        """
        if run.conditional and not self.classes:
            why = ""
            try:
                self.labels()
            except ValueError as error:
                why = f" ({error})"
            raise Misfit(f"has no class labels{why}, and a conditional GAN needs some", conditional=False)
        if run.flip and len(self.shape) != 3:
            raise Misfit("has no images that could be mirrored", flip=False)

    def load(self) -> Tensor | MapStyle[Tensor]:
        """Read the data: a tensor with all of them, images as uint8 and points as float, or a map-style dataset of images.

        Raises:
            OSError: The data cannot be had.
        """
        raise NotImplementedError

    def labels(self) -> Tensor:
        """Return the class of each sample, `(N,)`, int64, in the order of `load`.

        Raises:
            OSError, ValueError: The labels cannot be read, or there are none.
        """
        raise ValueError("take a set with labels, or a hub, an image_folder or shards with labels")

    def fingerprint(self) -> Any:
        """Return plain values that say what else than class and shape the content depends on, on this machine.

        What was decoded is then kept in the cache; None is for a dataset that is read anew in every run.
        """
        return None

    def digest(self) -> str:
        """Return what identifies the content wherever it lies: other data are refused when a run is resumed.

        The empty string is for synthetic data, of which the configuration says all.
        """
        return ""

    def held_out(self) -> "Dataset | None":
        """Return samples that are not among those of `load`; None if the set has no such part.

        D's over-fitting is seen on them if they are here, and `evaluation.against=test` compares generated samples with them.
        """
        return None

    @property
    def is_here(self) -> bool:
        """Whether it can be loaded without being downloaded first."""
        return True

    def skip(self, corrupt: dict[int, str]) -> None:
        """Leave out images from now on, given by their places in what `load` has returned, each with a sentence about it.

        Raises:
            OSError: No image would be left.
        """
        raise NotImplementedError


Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp:
    """Return what tells that a file has changed: its size, and its times of modification and of change.

    Copying and unpacking tools set the former, and so may give two contents the same one; the latter is the system's, and tells
    also that a file was renamed or replaced. The inode would tell no more, and network file systems number anew.
    """
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def sides(size: Size) -> tuple[int, int]:
    """Return height and width of images."""
    if isinstance(size, int):
        return size, size
    height, width = size
    return height, width
