"""Unpaired data made from a paired set."""

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle
from torch.utils.data import Subset

from ganexp.batch import Batch
from ganexp.data.dataset import Dataset, Range
from ganexp.data.unpaired import Companions, Rounds
from ganexp.ranges import checked


class Separated(Dataset):
    """Stacks (a, b) of a source of another data set and an image of another pair of it: see `Unpaired`.

    Set A is the sources of the first half of the data, set B the images of the second half, so no pair is seen whole. A grey
    source of a colour image is repeated for each channel.

    Args:
        of: A data set whose images have sources of their size, such as `Degraded` or `Pairs`.
        rounds: As in `Unpaired`.
    """

    paired = False

    @checked
    def __init__(self, *, of: Dataset, rounds: Rounds = 16) -> None:
        name, shape = type(of).__name__, of.shape
        if not of.source_shape or not of.paired:
            raise ValueError(f"of should be a data set with sources, such as degraded, and {name} has no pairs")
        if of.source_shape[1:] != shape[1:] or of.source_shape[0] not in (1, shape[0]):
            raise ValueError(f"of should have sources shaped as its images, {shape}, not {of.source_shape}")
        self.of, self.rounds = of, rounds
        self.shape = self.source_shape = (2 * shape[0], *shape[1:])

    @property
    def parts(self) -> tuple[Dataset]:
        return (self.of,)

    def joined(self, *parts: Any) -> MapStyle[Tensor]:
        (data,) = parts
        half = len(data) // 2
        if not half:
            raise OSError(f"of {len(data)} image there are no two halves: take a larger data set")
        halves = range(half), range(half, len(data))
        return Companions([Subset(data, which) for which in halves], self.rounds)

    @property
    def source_ranges(self) -> tuple[Range | None, ...]:
        return (*self.of.source_ranges, self.of.value_range)

    @property
    def loaded_shape(self) -> tuple[int, ...]:
        shape = self.of.loaded_shape
        return (2 * shape[0], *shape[1:])

    def derive(self, batch: Batch) -> Batch:
        a, b = (self.of.derive(Batch(images)) for images in batch.values.chunk(2, 1))
        assert a.source is not None  # it has a source_shape
        stack = torch.cat([a.source.expand_as(a.values), b.values], 1)
        return replace(batch, values=stack, source=stack)

    def digest(self) -> str:
        return f"{self.of.digest()}-{self.rounds}"

    def held_out(self) -> "Separated | None":
        """Return stacks of the pairs that the other data set holds out, in one round."""
        of = self.of.held_out()
        if of is None:
            return None
        others = copy.copy(self)
        others.of, others.rounds = of, 1
        return others
