"""Data sets of the samples of another one, with sources beside them."""

import copy
from collections.abc import Sequence
from typing import Any, Self

from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.dataset import Dataset
from ganexp.facts import Facts


class Derived(Dataset):
    """The images of another data set, each with a source that `derive` adds; all else is the other set's.

    Args:
        of: The other data set.

    Raises:
        ValueError: It has no images, or has sources of its own.
    """

    def __init__(self, of: Dataset) -> None:
        if len(of.shape) != 3:
            raise ValueError(f"of should be a data set of images, and the samples of {type(of).__name__} are points")
        if of.source_shape:
            raise ValueError(f"of should be a data set without sources, and {type(of).__name__} has its own")
        self.of = of
        self.shape, self.strict, self.modes, self.stack_of = of.shape, of.strict, of.modes, of.stack_of

    def check(self, run: Facts) -> None:
        self.of.check(run)

    @property
    def parts(self) -> tuple[Dataset]:
        return (self.of,)

    def joined(self, *parts: Any) -> Tensor | MapStyle[Tensor]:
        return parts[0]

    @property
    def loaded_shape(self) -> tuple[int, ...]:
        return self.of.loaded_shape

    @property
    def classes(self) -> int:  # type: ignore[override]  # those of some sets are read when they are first needed
        """How many classes the other set has."""
        return self.of.classes

    @property
    def class_names(self) -> Sequence[str]:  # type: ignore[override]  # likewise
        """What they are called."""
        return self.of.class_names

    def labels(self) -> Tensor:
        return self.of.labels()

    def fingerprint(self) -> Any:
        inner = self.of.fingerprint()
        return None if inner is None else [type(self.of).__qualname__, inner]

    def digest(self) -> str:
        return self.of.digest()

    def held_out(self) -> Self | None:
        """Return the other set's held-out samples, with sources made in the same way."""
        of = self.of.held_out()
        if of is None:
            return None
        others = copy.copy(self)
        others.of = of
        return others

    @property
    def is_here(self) -> bool:
        return self.of.is_here

    def skip(self, corrupt: dict[int, str]) -> None:
        self.of.skip(corrupt)
