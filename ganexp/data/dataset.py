"""The contract of a dataset."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.batch import Batch
from ganexp.data.modes import Modes
from ganexp.facts import Facts, Misfit

Side = Annotated[int, Ge(1), Le(4096)]
"""Pixels along one side of a square image."""
Size = Side | tuple[Side, Side]
"""Side of square images, or height and width; on the command line also `96x80`, width by height, as image programs write it."""
Range = tuple[float, float]
"""The values of black and of white in images of more than eight bits per channel."""


class Dataset:
    """Real samples. A dataset is cheap to construct: nothing is read or downloaded before `load`, except what `shape` needs."""

    shape: tuple[int, ...] = ()
    """Of one sample: `(C, H, W)` for images, `(2,)` for points of the plane."""

    classes: int = 0
    """How many classes the labels tell apart; 0 without labels."""

    class_names: Sequence[str] = ()
    """The names of the classes, in their order; empty if they have none."""

    bounded = True
    """Whether images are in [-1, 1], as pictures are; latents are not."""

    strict = True
    """Whether an image that cannot be decoded is refused; otherwise its index is passed to `skip`."""

    value_range: Range | None = None
    """Black and white in files of more than eight bits, as declared or as determined over the set; None if there are none."""

    modes: Modes | None = None
    """The known modes of the data."""

    stack_of: "Dataset | None" = None
    """The data set whose images are this one's channels; its classifier is applied to each channel."""

    source_shape: tuple[int, ...] = ()
    """Shape of the source that each sample has, such as an image that is to be translated; empty without sources."""

    paired = True
    """Whether a sample is the target of its own source; if not, it is only an example of the set of targets."""

    def check(self, run: Facts) -> None:
        """Refuse a run that is conditional where there are no labels, or that mirrors samples that are not images."""
        if run.conditional and not self.classes:
            why = ""
            try:
                self.labels()
            except ValueError as error:
                why = f" ({error})"
            raise Misfit(f"has no class labels, which conditional=true needs{why}", conditional=False)
        if run.flip and len(self.shape) != 3:
            raise Misfit("has no images, but flip=true mirrors images", flip=False)

    def load(self) -> Tensor | MapStyle[Tensor]:
        """Read the data: a tensor of all samples, images as uint8 and points as float, or a map-style dataset of samples.

        A set that has `parts` is joined from them. Data that are not available raise an OSError.
        """
        if not self.parts:
            raise NotImplementedError
        return self.joined(*(part.load() for part in self.parts))

    @property
    def parts(self) -> tuple["Dataset", ...]:
        """The data sets that this one is made of, each decoded and cached by itself; empty for one with files of its own."""
        return ()

    def joined(self, *parts: Any) -> Tensor | MapStyle[Tensor]:
        """Return what `load` returns, given what each of the `parts` has loaded."""
        raise NotImplementedError

    @property
    def loaded_shape(self) -> tuple[int, ...]:
        """Shape of one sample as `load` returns it, before `derive`."""
        return self.shape

    def derive(self, batch: Batch) -> Batch:
        """Return samples, as they are fed, in [-1, 1] and perhaps mirrored, with sources; each is made from its own sample."""
        return batch

    def pictures(self, samples: Tensor) -> Tensor:
        """Return the images that are shown and measured, `(B, *picture_shape)`: the samples, or decoded latents."""
        return samples

    @property
    def picture_shape(self) -> tuple[int, ...]:
        """Shape of one of `pictures`."""
        return self.shape

    @property
    def pictured_by(self) -> str:
        """The digest of the network that makes `pictures`; empty if there is none."""
        return ""

    def pictured(self, batch: Batch) -> Batch:
        """Return the batch of `derive` with `pictures` in place of the samples."""
        batch = self.derive(batch)
        return replace(batch, values=self.pictures(batch.values))

    def labels(self) -> Tensor:
        """Return the class of each sample, `(N,)`, int64, in the order of `load`; a ValueError says that there are none."""
        raise ValueError("other data sets have some")

    def fingerprint(self) -> Any:
        """Return plain values that identify the content on this machine, besides the Python class and the shape.

        Images, as uint8, are then kept in the cache; None is for a dataset that is read again in every run.
        """
        return None

    def digest(self) -> str:
        """Return a digest of the content, equal on all machines; a resumed run refuses data with another one.

        The empty string is for synthetic data, which the configuration describes completely.
        """
        return ""

    def held_out(self) -> "Dataset | None":
        """Return samples that are not among those of `load`; None if the set has no such part.

        D's over-fitting is measured on them if they need no download, and `evaluation.against=test` compares generated samples
        with them.
        """
        return None

    @property
    def source_ranges(self) -> "tuple[Range | None, ...]":
        """The `value_range` of the files that sources are read from, or made of; a stack of two has both."""
        return (self.value_range,)

    @property
    def is_here(self) -> bool:
        """Whether it can be loaded without being downloaded first."""
        return all(part.is_here for part in self.parts)

    def skip(self, corrupt: dict[int, str]) -> None:
        """Leave out images from now on, given by their indices in what `load` has returned, each with its error."""
        raise NotImplementedError


Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp:
    """Return the size of a file, and its times of modification and of change, to notice that it has changed.

    Copying and unpacking tools set the modification time, and so may give two contents the same one. The system sets the time
    of change, which also shows that a file was renamed or replaced. The inode would show no more, and network file systems
    renumber inodes.
    """
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def sides(size: Size) -> tuple[int, int]:
    """Return height and width of images."""
    if isinstance(size, int):
        return size, size
    height, width = size
    return height, width
