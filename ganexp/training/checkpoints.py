"""Writes the checkpoints of a run, and keeps the newest ones and the best."""

import logging
import math
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge

from ganexp.documents import write_state
from ganexp.logging import Row
from ganexp.logging.layout import RunFolder
from ganexp.ranges import checked
from ganexp.training.checkpoint import State, description, link, save, stamped
from ganexp.training.guard import unfit
from ganexp.training.run import Run

log = logging.getLogger(__name__)


class Checkpoints:
    """Writes the state of a run at an interval, and whenever a measurement is the best so far.

    Args:
        folder: The run folder; without one, nothing is written.
        every: Iterations from one checkpoint to the next; the last iteration has one too, and 0 means never.
        keep: How many of the newest are kept.
        best: A key of the rows: `checkpoints/best.pt` is from the iteration at which its value was lowest.
        highest: Whether it is from the iteration with the highest value instead.
        described: The `description` of the run; by default without a configuration or a shape.
    """

    @checked
    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        every: Annotated[int, Ge(0)] = 1000,
        keep: Annotated[int, Ge(1)] = 2,
        best: str | None = None,
        highest: bool = False,
        described: State | None = None,
    ) -> None:
        self.folder = None if folder is None else RunFolder(Path(folder))
        self.every = every
        self.keep = keep
        self.best = best
        self.described = described or description({}, None)
        self.sign = -1 if highest else 1
        self.lowest = float("inf")
        """The lowest value of the measurement, or of its negative where the highest is best."""
        self.best_at = 0
        """The iteration of that value; 0 if it is not known."""
        self.begun = False
        """Whether the newest checkpoint in the folder is this run's, and not one that an earlier run has left."""

    @property
    def last(self) -> Path | None:
        """The newest checkpoint of this run, if there is one."""
        last = None if self.folder is None else self.folder.last
        return last if self.begun and last and last.exists() else None

    def resume_from(self, path: Path) -> None:
        """Make the resumed checkpoint the run's last one, since rows of later iterations are dropped."""
        if self.folder is None or path.name == self.folder.last.name:
            return
        if path.parent.resolve() == self.folder.checkpoints.resolve():
            link(self.folder.last, path)

    def write_if_due(self, run: Run, row: Row) -> None:
        """Write a checkpoint if it is time for one, or if the measurement is the best so far."""
        value = row.get(self.best) if self.best else None
        if isinstance(value, (int, float)) and self.sign * value < self.lowest:
            before = self.lowest, self.best_at
            self.lowest, self.best_at = float(self.sign * value), run.iteration  # part of what is written
            if not self.write(run, best=True):
                self.lowest, self.best_at = before
        if run.due(self.every):
            self.write(run)

    def write(self, run: Run, *, best: bool = False) -> bool:
        """Write a checkpoint; if that fails, warn, leave the last good one intact, and return False."""
        if self.folder is None:
            return True
        wrong = unfit(run.gan, run.step.average.networks())
        if wrong:
            log.warning("No checkpoint at iteration %d, since %s.%s", run.iteration, wrong, self._intact)
            return False
        state = stamped(run.state_dict(), self.described)
        try:
            if best:
                write_state(self.folder.best, state)
            else:
                save(state, self.folder, keep=self.keep)
                self.begun = True
        except OSError as error:
            log.warning("No checkpoint at iteration %d: %s.%s", run.iteration, error, self._intact)
            return False
        return True

    @property
    def _intact(self) -> str:
        return " The one before it is intact." if self.folder and self.folder.last.exists() else ""

    def summary_note(self) -> str:
        """Return a sentence on the best value, its iteration and its checkpoint; empty if there is none."""
        if self.folder is None or not math.isfinite(self.lowest) or not self.folder.best.exists():
            return ""
        at = f", at iteration {self.best_at:,}" if self.best_at else ""
        return f"Best {self.best}: {self.sign * self.lowest:.4g}{at}, in {self.folder.best}."

    def state_dict(self) -> dict[str, Any]:
        return {"lowest": self.lowest, "best_at": self.best_at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint's state, whose best checkpoint is taken to be in the folder."""
        self.lowest, self.best_at, self.begun = state["lowest"], state["best_at"], True


class NonWritingCheckpoints(Checkpoints):
    """The checkpoints of a process that does not write: process 0 does, and this one reads them to roll the run back."""

    def write(self, run: Run, *, best: bool = False) -> bool:
        self.begun = self.begun or not best
        return True
