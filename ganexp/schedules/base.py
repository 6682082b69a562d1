"""The contract of a schedule."""

from collections.abc import Callable, Mapping

from torch import Tensor
from torch.optim import Optimizer

from ganexp.facts import Part


class Schedule(Part):
    """What moves learning rates over a run; the base class does nothing: it does not touch optimisers and has no state.

    Args:
        iterations: How many the run has.
    """

    on_host: tuple[str, ...] = ()
    """What reads a moving number on the host, so that a CUDA graph would not see it move: "SGD reads a moving momentum"."""

    def __init__(self, iterations: int = 0) -> None:
        self.iterations = iterations

    def begin(self, optimizers: Mapping[str, Optimizer]) -> None:
        """Take over the rates of both optimisers, `d` and `g`."""

    def observe(self, measured: Callable[[], Mapping[str, Tensor]]) -> None:
        """Observe what the loss measures, within an iteration, by tensor operations only."""

    def advance(self) -> None:
        """Set the rates of the next iteration."""

    def rates(self) -> dict[str, float]:
        """Return the rates of the last completed iteration, by network; empty if they do not move."""
        return {}

    def coefficients(self) -> dict[str, float]:
        """Return what else moves, by name, as it was in the last completed iteration."""
        return {}
