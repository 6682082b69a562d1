"""One process or several: where they share their work, and where they communicate. Nothing else knows about it."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from torch import Tensor

from ganexp.batch import Batch, Gradients

Whole = TypeVar("Whole", Tensor, Batch)
Item = TypeVar("Item")
Result = TypeVar("Result")


class Processes:
    """The interface, and its implementation for a single process, which does nothing.

    Every process draws the random numbers of the global batch and takes its own share of them, forms the loss of the *global*
    batch, of which its own share has a graph, and sums gradients with the others where an update is applied. That is exact for
    any loss; the mean of local losses is not, if a loss compares scores with one another.
    """

    count = 1
    """How many train together."""

    rank = 0
    """Which of them this is, counted from 0."""

    @property
    def writes(self) -> bool:
        """Whether this one writes what a run leaves: exactly one of them does."""
        return self.rank == 0

    def own(self, whole: Whole) -> Whole:
        """Return this process's share of what belongs to the global batch, `(B, …)`: the rank-th of `count` equal parts."""
        return whole

    def gather(self, share: Tensor) -> Tensor:
        """Return the scores, or other values, of all samples, `(B, …)`: one's own with a graph, the others' as constants."""
        return share

    def sum(self, gradients: Gradients) -> Gradients:
        """Return the gradients of the global objective, which are the sum of every process's."""
        return gradients

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of every process's tensor, through which each of them can differentiate."""
        return value

    def agree(self, asked: bool) -> bool:
        """Return whether any process was asked to stop; all of them get the same answer."""
        return asked

    def forget(self) -> None:
        """Forget who was asked to stop, as a run begins."""

    def tell(self, mine: Result) -> list[Result]:
        """Return what every process says, by rank: plain values."""
        return [mine]

    def together(self, action: Callable[[], Result]) -> Result:
        """Do something in every process, and return this one's result; if it fails in one, it fails in all."""
        return action()

    def first(self, action: Callable[[], Result]) -> Result:
        """Do something in the process that writes, before any other goes on, and return its result, a plain value, in all."""
        return action()

    def speaks(self) -> bool:
        """Return whether this process is the one to say why all end."""
        return True

    def close(self) -> None:
        """Leave the others, once all have come here."""

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Do something with each of some items, shared among processes, and yield the results in order to the one that writes.

        All have to go through it to its end. What fails with one item fails in every process.
        """
        return map(work, items)
