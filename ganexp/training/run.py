"""The interface of a run for callbacks, checkpoints and the guard."""

from pathlib import Path
from typing import Any, Protocol

from ganexp.gan import GAN
from ganexp.logging import Logger, Row
from ganexp.training.reals import Reals
from ganexp.training.step import Step


class CheckpointRecord(Protocol):
    """The checkpoints of a run, for the guard."""

    @property
    def last(self) -> Path | None:
        """The newest one, if there is one."""

    def state_dict(self) -> dict[str, Any]:
        """Return the value for which the best checkpoint was kept, and its iteration."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take them over."""


class Run(Protocol):
    """A run between two iterations."""

    iteration: int
    trained_s: float
    """Seconds of training, including those before a resumption."""
    step: Step
    reals: Reals
    loggers: list[Logger]

    @property
    def gan(self) -> GAN:
        """The networks, with all that belongs to them."""

    @property
    def checkpoints(self) -> CheckpointRecord:
        """Which states were kept."""

    def due(self, every: int) -> bool:
        """Return whether it is time for something with this interval; at the last iteration it always is, and 0 means never."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything that has a state."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state."""


class Callback:
    """Observes a run at an interval, returns part of a row, and changes nothing."""

    every: int
    """The interval in iterations; the last iteration is always observed, and 0 means never."""

    def begin(self, run: Run) -> None:
        """Prepare to observe; called when the run begins, and whenever it resumes from another iteration."""

    def before(self, run: Run) -> Row:
        """Return the callback's part of the row of iteration 0, which is written before anything is trained."""
        return {}

    def __call__(self, run: Run) -> Row:
        """Return the callback's part of the row."""
        raise NotImplementedError
