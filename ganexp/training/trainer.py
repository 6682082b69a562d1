"""The training loop."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from ganexp.gan import GAN
from ganexp.logbook import Book, Picture, Row, State
from ganexp.logbook.documents import write_document
from ganexp.training import divergence
from ganexp.training.checkpoint import capture, load, restore, save, write
from ganexp.training.cuda_graph import CudaGraph, CudaRecording, Eager, NotRecordable, Recording, reason_against
from ganexp.training.drawing import draw
from ganexp.training.ema import NoEMA
from ganexp.training.stopping import Stopping
from ganexp.training.timer import peak_memory_mib, timer_for
from ganexp.training.watched import Watched

log = logging.getLogger(__name__)

Strategy = Callable[..., None]
"""`strategy(gan, reals, *, d_steps, g_steps)`: see `ganexp.strategies`."""

Summary = dict[str, Any]
"""What `fit` returns and `summary.json` holds: `state`, `wall_s`, `paths`, and the last row as `last`."""


class Trainer:
    """Runs a strategy for a number of iterations and watches: rows, pictures, checkpoints, timings.

    Nothing that watches steers: the networks after n iterations are the same whatever is logged, drawn or saved. The
    device is waited for only when a row is written.

    Args:
        gan: The networks with all that belongs to them.
        reals: Real batches `(gan.batch_size, …)`, from an endless iterator, or from what can be iterated again, epoch by
            epoch, such as a DataLoader: see `Watched`.
        strategy: One of `ganexp.strategies`, or any function like them.
        iterations: How many iterations `fit` runs.
        d_steps, g_steps: Updates of each network per iteration, each at least 1.
        log_every, sample_every, checkpoint_every: Intervals in iterations; each also happens at the end, and 0 is never.
        ema: The averaged generator that samples come from.
        books: Where rows go.
        folder: Where `checkpoints/` and `summary.json` go; without one, nothing is saved.
        config: The configuration as plain values, kept in the checkpoint.
        keep_checkpoints: How many of the newest checkpoints stay.
        keep_best: A key of the rows: `checkpoints/best.pt` is from when it was lowest.
        stopping: What tells that a signal has asked the run to stop.
        on_divergence: What to do when a row is no longer finite or sensible: `stop`, `warn`, or `rollback` to the last
            checkpoint, with new latents from there.
        shape: Of one sample, kept in the checkpoint, so that its generator can be built again without the data.
    """

    def __init__(
        self,
        gan: GAN,
        reals: Iterable[Any],
        strategy: Strategy,
        *,
        iterations: int,
        d_steps: int = 1,
        g_steps: int = 1,
        log_every: int = 50,
        sample_every: int = 500,
        checkpoint_every: int = 1000,
        ema: NoEMA | None = None,
        books: Sequence[Book] = (),
        folder: str | Path | None = None,
        config: dict[str, Any] | None = None,
        keep_checkpoints: int = 2,
        keep_best: str | None = None,
        stopping: Stopping | None = None,
        on_divergence: Literal["stop", "warn", "rollback"] = "stop",
        cuda_graph: bool = False,
        shape: Sequence[int] | None = None,
    ) -> None:
        for name, count in {"d_steps": d_steps, "g_steps": g_steps, "iterations": iterations}.items():
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} must be an integer of at least 1, not {count}")
        self.gan = gan
        self.device = gan.prior.device
        reason = "there is no GPU" if self.device.type != "cuda" else reason_against(strategy)
        if cuda_graph and reason:
            raise ValueError(f"cuda_graph must be False: {reason}")
        self.timer = timer_for(self.device)
        self.reals = Watched(reals, self.timer.phase, batch_size=gan.batch_size, device=self.device, dtype=gan.prior.dtype)
        if on_divergence == "rollback" and self.reals.passes_once:
            raise ValueError(
                'on_divergence must be "stop" or "warn" with an iterator, which cannot go back: for "rollback" give what can '
                "be iterated again, such as a DataLoader"
            )
        self.strategy = strategy
        self.iterations = iterations
        self.d_steps = d_steps
        self.g_steps = g_steps
        self.log_every = log_every
        self.sample_every = sample_every
        self.checkpoint_every = checkpoint_every
        self.ema = ema or NoEMA(gan.generator)
        self.books = books
        self.folder = None if folder is None else Path(folder)
        self.config = config or {}
        self.shape = None if shape is None else list(shape)
        self.keep_checkpoints = keep_checkpoints
        self.keep_best = keep_best
        self.best = float("inf")
        self.stopping = stopping or Stopping()
        self.iteration = 0
        self.last_row: Row = {}
        self.earlier_s = 0.0  # trained before it was resumed
        self._start_s = time.perf_counter()
        self.on_divergence = on_divergence
        self.rollbacks = 0
        self._fitted = False
        self.cuda_graph = cuda_graph
        self._begin()

    def fit(self) -> Summary:
        """Train to the last iteration, or until it is asked to stop, and return the summary."""
        if self._fitted:
            raise RuntimeError("A trainer fits once, since its books are closed at the end; build another one.")
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        self._fitted, self._start_s = True, time.perf_counter()
        try:
            while self.iteration < self.iterations and not self.stopping.received:
                self.iterate()
                self._watch()
        except BaseException as error:
            self._finish("preempted" if isinstance(error, KeyboardInterrupt) else "failed")
            raise
        if self.iteration < self.iterations:
            self._checkpoint()
            log.info("Stopped at iteration %d.", self.iteration)
            return self._finish("preempted")
        return self._finish("finished")

    def wall_s(self) -> float:
        """Return the seconds that were trained, those before a resumption included."""
        return self.earlier_s + time.perf_counter() - self._start_s

    def iterate(self) -> None:
        """Run one iteration, and nothing that writes or waits."""
        self.gan.meter.norms_wanted = self._run.always_the_same or self._due(self.log_every, self.iteration + 1)
        try:
            self._run.prepare()
        except NotRecordable as error:
            log.warning("cuda_graph: an iteration cannot be recorded (%s), so all are run eagerly.", error)
            self.cuda_graph = False
            self._begin()
        with self.timer.phase("iteration"):
            self._run(self.reals)
        self.iteration += 1
        for book in self.books:
            book.tick()

    def _iteration(self, reals: Iterator[Tensor]) -> None:
        self.strategy(self.gan, reals, d_steps=self.d_steps, g_steps=self.g_steps)
        self.gan.finish_iteration()
        self.ema.update()

    def _begin(self) -> None:
        """Start timing and, with `cuda_graph`, recording: at first, and whenever tensors have been replaced."""
        self.timed_iteration, self.timed_images = self.iteration, self.reals.images
        self.gan.phase = self.timer.phase
        self._shares: dict[str, float] = {}
        self._run = Eager(self._iteration) if not self.cuda_graph else self._graph(CudaRecording(self._generators))

    def _graph(self, recording: Recording) -> CudaGraph:
        gan = self.gan
        return CudaGraph(
            self._iteration,
            counters=[gan.updates, gan.meter.counts],
            optimizers=[gan.optimizer_g, gan.optimizer_d],
            recording=recording,
            profile=self._profile,
        )

    def _generators(self) -> list[torch.Generator]:
        return [generator for generator in (self.gan.prior.generator, self.gan.penalty.generator) if generator is not None]

    def _profile(self, left: int) -> None:
        """Learn how an eager iteration's time is shared by its phases, since none can be timed within a graph."""
        self._read_ms()
        self.timed_iteration, self.timed_images = self.iteration, self.reals.images
        if left == 0:
            self.gan.phase = lambda name: nullcontext()

    def _read_ms(self) -> dict[str, float]:
        """Return the milliseconds per phase since the last call; what was not timed is shared as it was when it last was."""
        total_ms = self.timer.read_ms()
        if "d" in total_ms:
            self._shares = {name: total_ms.get(name, 0.0) / total_ms["iteration"] for name in ("d", "g")}
        elif "iteration" in total_ms:
            total_ms |= {name: share * total_ms["iteration"] for name, share in self._shares.items()}
        return total_ms

    def _watch(self) -> None:
        row: Row = {}
        if self._due(self.log_every, self.iteration):
            row |= self._measure()
        if self.books and self._due(self.sample_every, self.iteration):
            row |= self._draw()
        if row:
            row = self._progress() | row
            self.last_row = self.last_row | row
            for book in self.books:
                book.write(row)
            trouble = divergence.trouble(row)
            if trouble:
                self._diverged(trouble, row)
                return
            self._keep_if_best(row)
        if self.folder and self._due(self.checkpoint_every, self.iteration):
            self._checkpoint()

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint, rows included.

        Raises:
            CheckpointError: It does not fit.
        """
        restore(self, state)
        self._start_s = time.perf_counter()
        self.timer.read_ms()
        self._begin()
        for book in self.books:
            book.rewind(self.iteration)

    def _diverged(self, trouble: str, row: Row) -> None:
        """Write down what is known, and do what `on_divergence` says."""
        said = f"Diverged at iteration {self.iteration}: {trouble}."
        if self.folder:
            divergence.write_down(self.folder / "divergence.json", said, row, self.gan, self.reals.last)
        last = self.folder / "checkpoints" / "last.pt" if self.folder else None
        if self.on_divergence == "warn":
            log.warning(said)
        elif self.on_divergence == "rollback" and last and last.exists() and self.rollbacks < divergence.MOST_ROLLBACKS:
            rollbacks, spent_s = self.rollbacks + 1, self.wall_s()
            self.resume(load(last))
            self.rollbacks, self.earlier_s = rollbacks, spent_s  # what was trained in vain took its time
            self.gan.prior.renew(self.rollbacks)
            log.warning("%s Back to iteration %d, with new latents.", said, self.iteration)
        else:
            raise divergence.Diverged(f"{said} {divergence.remedy(last)}")

    def _keep_if_best(self, row: Row) -> None:
        value = row.get(self.keep_best) if self.keep_best else None
        if isinstance(value, (int, float)) and value < self.best:
            self.best = value
            self._checkpoint(best=True)

    def _checkpoint(self, *, best: bool = False) -> None:
        """Write a checkpoint; if that is not possible, say so, and go on with the last good one intact."""
        if not self.folder:
            return
        wrong = divergence.unfit(self.gan, self.ema.average)
        if wrong:
            log.warning("No checkpoint at iteration %d, since %s. The one before is intact.", self.iteration, wrong)
            return
        try:
            if best:
                write(capture(self), self.folder / "checkpoints" / "best.pt")
            else:
                save(capture(self), self.folder / "checkpoints", keep=self.keep_checkpoints)
        except OSError as error:
            log.warning("No checkpoint at iteration %d: %s. The one before it is intact.", self.iteration, error)

    def _due(self, every: int, iteration: int) -> bool:
        return every > 0 and (iteration % every == 0 or iteration == self.iterations)

    def _progress(self) -> Row:
        return {
            "progress/iteration": self.iteration,
            "progress/real_images": self.reals.images,
            "progress/d_updates": self.gan.d_updates,
            "progress/g_updates": self.gan.g_updates,
            "progress/wall_s": self.wall_s(),
        }

    def _measure(self) -> Row:
        gan = self.gan
        values: Row = {**gan.meter.means(gan.measurements())}
        total_ms = self._read_ms()
        iterations = self.iteration - self.timed_iteration
        images = self.reals.images - self.timed_images
        self.timed_iteration, self.timed_images = self.iteration, self.reals.images
        times: Row = {f"time/{name}_ms": total_ms.get(name, 0.0) / iterations for name in ("iteration", "data", "d", "g")}
        speed: Row = {"speed/images_per_s": 1000 * images / total_ms["iteration"]}
        return values | times | speed | {"memory/peak_mib": peak_memory_mib(self.device)}

    def _draw(self) -> Row:
        return {**draw(self.ema.average, self.gan.discriminator, self.gan.prior, self.reals.shown(), self.iteration)}

    def _finish(self, state: State) -> Summary:
        last = {key: value.path if isinstance(value, Picture) else value for key, value in self.last_row.items()}
        summary: Summary = {"state": state, "iteration": self.iteration, "wall_s": self.wall_s(), "paths": {}, "last": last}
        self.reals.close()
        try:
            for book in self.books:
                book.close(state)
        finally:
            summary["paths"] = self._paths()  # books know only after their end what has become of an upload
            self._keep(summary)
        return summary

    def _keep(self, summary: Summary) -> None:
        """Write the summary; a disk that is full must not hide how the run has ended."""
        try:
            if self.folder:
                write_document(self.folder / "summary.json", summary)
        except OSError as error:
            log.warning("No summary.json: %s.", error)

    def _paths(self) -> dict[str, str]:
        paths = {key: place for book in self.books for key, place in book.signposts().items()}
        if not self.folder:
            return paths
        latest = self.folder / "checkpoints" / "last.pt"
        return {"folder": str(self.folder)} | paths | ({"checkpoint": str(latest)} if latest.exists() else {})
