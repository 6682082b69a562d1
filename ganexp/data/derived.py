"""Data sets made from another data set by adding sources."""

import copy
from collections.abc import Sequence
from typing import Annotated, Any, Self

from annotated_types import Ge
from torch import Tensor
from torch.utils.data import Dataset as MapStyle
from torch.utils.data import Subset

from ganexp.data.dataset import Dataset, Range
from ganexp.facts import Facts

HoldOut = Annotated[int, Ge(0)]


class Derived(Dataset):
    """The images of another data set, each with a source that `derive` adds; all else is the other set's.

    Args:
        of: The other data set, of images without sources.
        hold_out: How many images are not trained on, but held out in place of the other set's held-out part. They are evenly
            spaced, so that each class has its share even where images are sorted by class.
    """

    _is_held_out = False

    def __init__(self, of: Dataset, hold_out: HoldOut = 0) -> None:
        if len(of.shape) != 3:
            raise ValueError(f"of should be a data set of images, and the samples of {type(of).__name__} are points")
        if not of.bounded:
            raise ValueError(f"of should be a data set of images, and the samples of {type(of).__name__} are latents")
        if of.source_shape:
            raise ValueError(f"of should be a data set without sources, and {type(of).__name__} has its own")
        self.of, self.hold_out = of, hold_out
        self.shape, self.modes, self.stack_of = of.shape, of.modes, of.stack_of

    def check(self, run: Facts) -> None:
        self.of.check(run)

    @property
    def parts(self) -> tuple[Dataset]:
        return (self.of,)

    def joined(self, *parts: Any) -> Tensor | MapStyle[Tensor]:
        (data,) = parts
        if not self.hold_out:
            return data
        which = self._which(len(data))
        return data[which] if isinstance(data, Tensor) else Subset(data, which)

    @property
    def loaded_shape(self) -> tuple[int, ...]:
        return self.of.loaded_shape

    @property
    def value_range(self) -> Range | None:  # type: ignore[override]  # found when it is first needed
        return self.of.value_range

    @property
    def source_ranges(self) -> tuple[Range | None, ...]:
        return self.of.source_ranges

    @property
    def classes(self) -> int:  # type: ignore[override]  # those of some sets are read when they are first needed
        return self.of.classes

    @property
    def class_names(self) -> Sequence[str]:  # type: ignore[override]  # likewise
        return self.of.class_names

    def labels(self) -> Tensor:
        labels = self.of.labels()
        return labels[self._which(len(labels))] if self.hold_out else labels

    def digest(self) -> str:
        whole = self.of.digest()
        return f"{whole}-{'held-out' if self._is_held_out else 'without'}-{self.hold_out}" if whole and self.hold_out else whole

    def held_out(self) -> Self | None:
        """Return the images that are held out, or the other set's, with sources made in the same way."""
        others = copy.copy(self)
        if self.hold_out:
            others._is_held_out = True
            return None if self._is_held_out else others
        of = self.of.held_out()
        if of is None:
            return None
        others.of = of
        return others

    def _which(self, n: int) -> list[int]:
        """Return the indices of this set's samples in the other set, which holds `n`."""
        if n <= self.hold_out:
            raise OSError(f"of {n:,} images, hold_out={self.hold_out:,} leaves none to train on: hold out fewer")
        held = [(2 * i + 1) * n // (2 * self.hold_out) for i in range(self.hold_out)]
        return held if self._is_held_out else sorted({*range(n)} - {*held})
