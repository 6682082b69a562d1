"""What may be asked of a run by those that look at it, keep it, or guard it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ganexp.gan import GAN
from ganexp.runs import Book, Row
from ganexp.training.reals import Reals
from ganexp.training.step import Step


class Kept(Protocol):
    """The checkpoints of a run."""

    @property
    def last(self) -> Path | None:
        """The newest one, if there is one."""


class Run(Protocol):
    """A run between two iterations."""

    iteration: int
    trained_s: float
    """Seconds that were trained, those before a resumption included."""

    @property
    def step(self) -> Step:
        """What an iteration is."""

    @property
    def reals(self) -> Reals:
        """Where real batches come from."""

    @property
    def books(self) -> Sequence[Book]:
        """Where rows go."""

    @property
    def checkpoints(self) -> Kept:
        """What was saved."""

    @property
    def gan(self) -> GAN:
        """The networks, with all that belongs to them."""

    def due(self, every: int) -> bool:
        """Say whether something that happens every so many iterations happens now; at the end everything does, 0 is never."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything that has a state."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""


class Watcher:
    """Looks at a run every so many iterations, returns what it sees as part of a row, and changes nothing."""

    every: int
    """Iterations from one look to the next; it also looks at the last one, and 0 is never."""

    def begin(self, run: Run) -> None:
        """Note that the run begins, or goes on from another iteration."""

    def __call__(self, run: Run) -> Row:
        """Return what is seen."""
        raise NotImplementedError
