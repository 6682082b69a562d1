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
        """Return the best value and its iteration."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint's state."""


class Run(Protocol):
    """The interface of a run between two iterations."""

    iteration: int
    iterations: int
    """The last iteration."""
    trained_s: float
    """Seconds of training, including those before a resumption."""
    step: Step
    reals: Reals
    loggers: list[Logger]

    @property
    def gan(self) -> GAN:
        """The networks, with their optimisers, loss and the rest."""

    @property
    def checkpoints(self) -> CheckpointRecord:
        """The checkpoints of the run."""

    def due(self, every: int) -> bool:
        """Return whether something with this interval is due; at the last iteration it always is, and 0 means never."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state of everything in the run."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state."""


class Callback:
    """Observes a run at an interval, returns part of a row, and changes nothing."""

    every: int
    """The interval in iterations; the last iteration is always observed, and 0 means never."""
    when_stopped = False
    """Whether it also observes the iteration at which a signal stops the run."""

    def begin(self, run: Run) -> None:
        """Prepare to observe; called when the run begins, and whenever it resumes from another iteration."""

    def before(self, run: Run) -> Row:
        """Return the callback's part of the row of iteration 0, which is written before anything is trained."""
        return {}

    def __call__(self, run: Run) -> Row:
        """Return the callback's part of the row."""
        raise NotImplementedError
