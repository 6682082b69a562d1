"""The training loop."""

import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Annotated, Any

import torch
from annotated_types import Ge, Gt

from ganexp.gan import GAN
from ganexp.logging import Ending, Logger, Picture, Row, Summary
from ganexp.printable import one_line
from ganexp.ranges import checked
from ganexp.training.callbacks import Diagnostics, Measures, Samples
from ganexp.training.callbacks.diagnostics import collapse
from ganexp.training.checkpoint import CheckpointError, refuse_unlike, refuse_unlike_optimizer
from ganexp.training.checkpoints import Checkpoints
from ganexp.training.global_streams import GlobalStreams
from ganexp.training.guard import Guard
from ganexp.training.reals import Reals
from ganexp.training.run import Callback
from ganexp.training.step import Step
from ganexp.training.stopping import Stopping

log = logging.getLogger(__name__)


class Trainer:
    """Repeats a step, and writes the callbacks' rows to the loggers.

    Callbacks change nothing: the networks after n iterations are the same whatever is logged, drawn or saved. The device
    is waited for only when a row is written.

    Args:
        step: One iteration.
        reals: Real batches `(gan.batch_size, …)`, from an endless iterator, or from what can be iterated again, epoch by
            epoch, such as a DataLoader: see `Reals`. In several processes, this one's share of each.
        iterations: How many iterations `fit` runs.
        minutes: After this time, which includes evaluations and what was trained before a resumption, one more iteration is
            made: the last one, observed and saved as such. Schedules stay where they are.
        callbacks: What looks at the run; by default `Measures` every 50 iterations, `Samples` and `Diagnostics` every 500.
        loggers: Where rows go.
        checkpoints: Which states are kept; by default none.
        guard: What is done when the run diverges; by default it stops.
        stopping: Reports that a signal has asked the run to stop.
    """

    @checked
    def __init__(
        self,
        step: Step,
        reals: Iterable[Any],
        *,
        iterations: Annotated[int, Ge(1)],
        minutes: Annotated[float, Gt(0)] | None = None,
        callbacks: Sequence[Callback] | None = None,
        loggers: Sequence[Logger] = (),
        checkpoints: Checkpoints | None = None,
        guard: Guard | None = None,
        stopping: Stopping | None = None,
    ) -> None:
        self.step = step
        self.iterations = self.planned = iterations
        self.minutes = minutes
        prior = self.gan.prior
        self.reals = Reals(
            reals,
            self.gan.phase,
            batch_size=self.gan.batch_size,
            device=prior.device,
            dtype=prior.dtype,
            processes=self.gan.processes,
        )
        self.callbacks = [Measures(), Samples(), Diagnostics()] if callbacks is None else list(callbacks)
        self.loggers = list(loggers)
        self.checkpoints = checkpoints or Checkpoints()
        self.guard = guard or Guard()
        if self.guard.on_divergence == "rollback" and self.reals.passes_once:
            raise ValueError(
                'on_divergence must be "stop" or "warn" with an iterator, which cannot go back: for "rollback" give what can '
                "be iterated again, such as a DataLoader"
            )
        self.stopping = stopping or Stopping()
        self.streams = GlobalStreams(prior.device)
        self.iteration = 0
        self.last_row: Row = {}
        self._fitted = False
        self._before_s = 0.0
        self._since: float | None = None

    @property
    def gan(self) -> GAN:
        return self.step.gan

    @property
    def trained_s(self) -> float:
        return self._before_s + (0 if self._since is None else time.perf_counter() - self._since)

    @trained_s.setter
    def trained_s(self, seconds: float) -> None:
        self._before_s = seconds
        if self._since is not None:
            self._since = time.perf_counter()

    def fit(self) -> Summary:
        """Train to the last iteration, or until it is asked to stop, and return the summary."""
        if self._fitted:
            raise RuntimeError("A trainer fits once, since its loggers are closed at the end; build another one.")
        self._fitted, self._since = True, time.perf_counter()
        self.gan.processes.forget()
        if self.streams.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.streams.device)
        for callback in self.callbacks:
            callback.begin(self)
        try:
            if self.iteration == 0 and not self.last_row:  # else it was stopped here, with this row
                self.reals.ahead()  # whatever callbacks observe: a loader draws its seed from torch's global stream now
                self.write({key: value for callback in self.callbacks for key, value in callback.before(self).items()})
            while self.iteration < self.iterations and not self.asked_to_stop():
                if self.minutes and self.gan.processes.any_rank(self.trained_s >= 60 * self.minutes):
                    self.iterations = self.iteration + 1
                self.step(self.reals, keep_gradients=any(self.due(callback.every, ahead=1) for callback in self.callbacks))
                self.iteration += 1
                self.record(self.watch())
            if self.iteration < self.iterations:
                self.checkpoints.write(self)
                last = [callback for callback in self.callbacks if callback.when_stopped and not self.due(callback.every)]
                self.write({key: value for callback in last if callback.every for key, value in callback(self).items()})
        except BaseException as error:
            self.finish("preempted" if isinstance(error, KeyboardInterrupt) else "failed")
            raise
        if self.iteration < self.iterations:
            log.info("Stopped at iteration %d.", self.iteration)
            return self.finish("preempted")
        return self.finish("finished")

    def asked_to_stop(self) -> bool:
        """Return whether any process of the run was asked to stop."""
        return self.gan.processes.any_rank(self.stopping.received is not None)

    def due(self, every: int, *, ahead: int = 0) -> bool:
        """Return whether something with this interval is due now, or `ahead` iterations later: see `Run`."""
        iteration = self.iteration + ahead
        return every > 0 and (iteration % every == 0 or iteration == self.iterations)

    def watch(self) -> Row:
        """Return the joint row of the callbacks that are due."""
        row: Row = {}
        for callback in self.callbacks:
            if self.due(callback.every):
                row |= callback(self)
        return row

    def record(self, row: Row) -> None:
        """Write a row, if there is one, and checkpoints that are due, unless the row shows that the run has diverged."""
        for logger in self.loggers:
            logger.tick()
        if row:
            row = self.write(row)
            if not self.guard.passes(self, row):
                return
        self.checkpoints.write_if_due(self, row)

    def write(self, row: Row) -> Row:
        """Write a row, unless it is empty, and return it with the progress counters."""
        if row:
            row = self.progress() | row
            self.last_row |= row
            for logger in self.loggers:
                logger.write(row)
        return row

    def progress(self) -> Row:
        """Return the progress counters."""
        return {
            "progress/iteration": self.iteration,
            "progress/real_images": self.reals.images,
            "progress/d_updates": self.gan.meter.updates["d"],
            "progress/g_updates": self.gan.meter.updates["g"],
            "progress/wall_s": self.trained_s,
        }

    def log_to(self, loggers: Iterable[Logger]) -> None:
        """Write rows to further loggers from now on; they drop the rows of later iterations."""
        for logger in loggers:
            self.loggers.append(logger)
            self.last_row |= logger.rewind(self.iteration)

    def parts(self) -> dict[str, Any]:
        return {
            "reals": self.reals,  # the only one that may refuse to load, so that the others are then untouched
            "gan": self.gan,
            "step": self.step,
            "streams": self.streams,
            "checkpoints": self.checkpoints,
            "guard": self.guard,
        }

    def state_dict(self) -> dict[str, Any]:
        counts = {"iteration": self.iteration, "trained_s": self.trained_s}
        return counts | {name: part.state_dict() for name, part in self.parts().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint's state; loggers drop the rows of later iterations.

        Where it does not fit, the run stays as it was, unless a list in the state has numbers where tensors belong.
        """
        self._refuse_unfitting(state)
        try:
            for name, part in self.parts().items():
                part.load_state_dict(state[name])
        except (AttributeError, TypeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint does not fit this run ({error})") from error
        self.iteration, self.trained_s = state["iteration"], state["trained_s"]
        self.gan.timer.restart()
        for callback in self.callbacks:
            callback.begin(self)
        self.last_row = {}
        for logger in self.loggers:
            self.last_row |= logger.rewind(self.iteration)

    def _refuse_unfitting(self, state: dict[str, Any]) -> None:
        try:
            refuse_unlike("the checkpoint", self.state_dict(), state, self.gan)
            refuse_unlike_optimizer("optimizer_g", self.gan.optimizer_g, state["gan"]["optimizer_g"])
            refuse_unlike_optimizer("optimizer_d", self.gan.optimizer_d, state["gan"]["optimizer_d"])
            self.streams.refuse(state["streams"])
        except Exception as error:  # what a tampered value makes a stream raise has no common type
            reason = one_line(error)
            reason = reason if type(error) is ValueError else f"{type(error).__name__}: {reason}"
            raise CheckpointError(f"the checkpoint does not fit this run ({reason})") from error
        before, now = state["reals"]["digest"], self.reals.digest
        if before and now and before != now:
            raise CheckpointError("the data are not those that the run was trained on: bring them back, or begin a new run")

    def finish(self, ending: Ending) -> Summary:
        """Close the loggers, the first one last, and return the summary with the paths that they add."""
        last = {key: value.path if isinstance(value, Picture) else value for key, value in self.last_row.items()}
        paths = {"checkpoint": str(self.checkpoints.last)} if self.checkpoints.last else {}
        sentences = [
            self._time_note(),
            collapse(self.last_row) if ending == "finished" else "",
            self.checkpoints.summary_note(),
        ]
        notes = [note for note in sentences if note]
        self._before_s, self._since = self.trained_s, None
        summary = Summary(state=ending, iteration=self.iteration, wall_s=self.trained_s, notes=notes, paths=paths, last=last)
        self.reals.close()
        with ExitStack() as closing:  # whatever one of them raises, the others are closed
            for logger in self.loggers:
                closing.callback(logger.close, summary)
        return summary

    def _time_note(self) -> str:
        """Return a sentence if `minutes` has ended the run, else an empty string."""
        if self.iterations == self.planned:
            return ""
        rates = ", ".join(f"{name.upper()} {rate:.3g}" for name, rate in self.step.schedule.rates().items())
        schedule = f"; its schedule was not completed: learning rates {rates}" if rates else ""
        return f"Ended by minutes={self.minutes:g} at iteration {self.iteration:,} of {self.planned:,}{schedule}."
