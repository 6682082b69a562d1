"""The real batches on their way to the strategy."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import torch
from torch import Tensor

ENOUGH = 1000
"""Real points for one picture: a batch of them shows neither every mode nor its width."""


class Watched:
    """Counts and times what is drawn from an iterator of batches, and keeps what pictures show of it.

    Args:
        reals: The batches.
        phase: What times them, as the phase `data`.
    """

    def __init__(self, reals: Iterator[Tensor], phase: Callable[[str], AbstractContextManager[object]]) -> None:
        self.reals = reals
        self.phase = phase
        self.batches, self.images = 0, 0
        self.last: Tensor
        self._first: list[Tensor] = []

    def seek(self, batches: int, images: int) -> None:
        """Go on as if so many batches, with so many images, had been drawn."""
        getattr(self.reals, "seek")(batches)  # noqa: B009
        self.batches, self.images = batches, images

    def __iter__(self) -> Iterator[Tensor]:
        return self

    def __next__(self) -> Tensor:
        with self.phase("data"):
            self.last = next(self.reals)
        if self.last.dim() != 4 and sum(map(len, self._first)) < ENOUGH:
            self._first.append(self.last.clone())
        self.batches += 1
        self.images += len(self.last)
        return self.last

    def shown(self) -> Tensor:
        """Return what a picture shows as real: the last batch of images, or the first thousand points, so that axes stay."""
        return torch.cat(self._first)[:ENOUGH] if self._first else self.last
