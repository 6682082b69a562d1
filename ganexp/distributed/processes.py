"""The interface of one process or several: how they share their work, and how they communicate.

Torch is not imported here, so that errors on the command line appear without waiting for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

    from ganexp.batch import Batch, Gradients

Whole = TypeVar("Whole", "Tensor", "Batch")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Processes:
    """The interface, and its implementation for a single process, which does nothing.

    Every process draws the random numbers of the global batch and takes its own share of them. It forms the loss of the
    *global* batch, with an autograd graph for its own share only, and sums gradients with the others when an update is applied.
    That is exact for any loss; the mean of local losses is not exact for a loss that compares scores with one another.
    """

    count = 1
    """How many processes train together."""

    rank = 0
    """Which of them this is, counted from 0."""

    @property
    def is_main(self) -> bool:
        """Whether this process writes the run folder; exactly one does."""
        return self.rank == 0

    def own(self, whole: Whole) -> Whole:
        """Return this process's share of a tensor of the global batch, `(B, …)`: the rank-th of `count` equal parts."""
        return whole

    def gather(self, share: Tensor) -> Tensor:
        """Return scores or other values of all samples, `(B, …)`: this process's with a graph, the others' as constants."""
        return share

    def sum(self, gradients: Gradients) -> Gradients:
        """Return the gradients of the global objective, the sum over processes."""
        return gradients

    def total(self, value: Tensor) -> Tensor:
        """Return the sum over processes of a tensor, which can be differentiated."""
        return value

    def any_rank(self, asked: bool) -> bool:
        """Return whether any process was asked to stop; all of them get the same answer."""
        return asked

    def forget(self) -> None:
        """Forget earlier requests to stop, as a run begins."""

    def tell(self, value: Result) -> list[Result]:
        """Exchange plain values: return the values of all processes, by rank."""
        return [value]

    def together(self, action: Callable[[], Result]) -> Result:
        """Run an action in every process, and return this one's result; if it fails in one, it fails in all."""
        return action()

    def first(self, action: Callable[[], Result]) -> Result:
        """Run an action in the main process while the others wait, and return its result, a plain value, in all of them."""
        return action()

    def is_reporter(self) -> bool:
        """Return whether this process is to report why all processes end."""
        return True

    def close(self) -> None:
        """Leave the group, once all processes have called this."""

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply a function to each item, shared among processes, and yield the results in order in the main process.

        Every process has to iterate to the end. An error on one item is raised in every process.
        """
        return map(work, items)
