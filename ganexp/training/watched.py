"""The real batches on their way to the strategy."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from torch import Tensor


class Watched:
    """Counts and times what is drawn from an iterator of batches, and keeps the last one.

    Args:
        reals: The batches.
        phase: What times them, as the phase `data`.
    """

    def __init__(self, reals: Iterator[Tensor], phase: Callable[[str], AbstractContextManager[object]]) -> None:
        self.reals = reals
        self.phase = phase
        self.batches, self.images = 0, 0
        self.last: Tensor

    def seek(self, batches: int, images: int) -> None:
        """Go on as if so many batches, with so many images, had been drawn."""
        getattr(self.reals, "seek")(batches)  # noqa: B009
        self.batches, self.images = batches, images

    def close(self) -> None:
        """End what reads ahead. Only a feed that can seek is closed: a plain generator may be wanted for more."""
        if hasattr(self.reals, "seek"):
            getattr(self.reals, "close", lambda: None)()

    @property
    def digest(self) -> str:
        """What identifies the data; empty if that is not known."""
        digest = getattr(self.reals, "digest", "")
        return digest if isinstance(digest, str) else ""

    def __iter__(self) -> Iterator[Tensor]:
        return self

    def __next__(self) -> Tensor:
        with self.phase("data"):
            self.last = next(self.reals)
        self.batches += 1
        self.images += len(self.last)
        return self.last
