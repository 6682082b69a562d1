"""The contract of a schedule."""

from collections.abc import Callable, Mapping

from torch import Tensor
from torch.optim import Optimizer

from ganexp.facts import Part


class Schedule(Part):
    """A schedule of learning rates over a run. The base class does nothing: it does not touch optimisers and has no state.

    Args:
        iterations: Number of iterations of the run.
    """

    on_host: tuple[str, ...] = ()
    """Sentences such as "SGD reads a moving momentum", for numbers that are read on the host, where a CUDA graph cannot."""

    def __init__(self, iterations: int = 0) -> None:
        self.iterations = iterations

    def begin(self, optimizers: Mapping[str, Optimizer]) -> None:
        """Take over the rates of both optimisers, `d` and `g`."""

    def observe(self, measured: Callable[[], Mapping[str, Tensor]]) -> None:
        """Observe the loss's measurements within an iteration, by tensor operations only."""

    def advance(self) -> None:
        """Set the rates of the next iteration."""

    def rates(self) -> dict[str, float]:
        """Return the rates of the last completed iteration, by network; empty if they do not move."""
        return {}

    def coefficients(self) -> dict[str, float]:
        """Return the other moving numbers of the last completed iteration, by name."""
        return {}
