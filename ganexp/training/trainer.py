"""The training loop."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ganexp.gan import GAN
from ganexp.logbook import Book, Picture, Row
from ganexp.logbook.pictures import image_grid, scatter, side_by_side
from ganexp.training.checkpoint import checkpoint, save
from ganexp.training.ema import NoEMA
from ganexp.training.timer import peak_memory_mib, timer_for

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
        reals: An endless iterator of real batches on the device.
        strategy: One of `ganexp.strategies`, or any function like them.
        iterations: How many iterations `fit` runs.
        d_steps, g_steps: Updates of each network per iteration, each at least 1.
        log_every, sample_every, checkpoint_every: Intervals in iterations; each also happens at the end, and 0 is never.
        ema: The averaged generator that samples come from.
        books: Where rows go.
        folder: Where `checkpoints/` and `summary.json` go; without one, nothing is saved.
        config: The configuration as plain values, kept in the checkpoint.
    """

    def __init__(
        self,
        gan: GAN,
        reals: Iterator[Tensor],
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
        folder: Path | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        for name, count in {"d_steps": d_steps, "g_steps": g_steps, "iterations": iterations}.items():
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} must be an integer of at least 1, not {count}")
        self.gan = gan
        self.reals = _Watched(reals, gan)
        self.strategy = strategy
        self.iterations = iterations
        self.d_steps = d_steps
        self.g_steps = g_steps
        self.log_every = log_every
        self.sample_every = sample_every
        self.checkpoint_every = checkpoint_every
        self.ema = ema or NoEMA(gan.generator)
        self.books = books
        self.folder = folder
        self.config = config or {}
        self.iteration = 0
        self.last_row: Row = {}
        self.device = gan.prior.device
        self.timer = timer_for(self.device)
        self._logged_iteration, self._logged_images = 0, 0
        gan.phase = self.timer.phase

    def fit(self) -> Summary:
        """Train to the last iteration, and return the summary."""
        if self.iteration:
            raise RuntimeError("A trainer fits once, since its books are closed at the end; build another one.")
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        start = time.perf_counter()
        try:
            while self.iteration < self.iterations:
                self.iterate()
                self._watch()
        except BaseException:
            self._finish("failed", start)
            raise
        return self._finish("finished", start)

    def iterate(self) -> None:
        """Run one iteration, and nothing that writes or waits."""
        self.gan.meter.norms_wanted = self._due(self.log_every, self.iteration + 1)
        with self.timer.phase("iteration"):
            self.strategy(self.gan, self.reals, d_steps=self.d_steps, g_steps=self.g_steps)
            self.gan.finish_iteration()
            self.ema.update()
        self.iteration += 1
        for book in self.books:
            book.tick()

    def _watch(self) -> None:
        row: Row = {}
        if self._due(self.log_every, self.iteration):
            row |= self._measure()
        if self.books and self._due(self.sample_every, self.iteration):
            row |= self._draw()
        if row:
            self.last_row = self.last_row | self._progress() | row
            for book in self.books:
                book.write(self._progress() | row)
        if self.folder and self._due(self.checkpoint_every, self.iteration):
            state = checkpoint(self.gan, self.ema, self.strategy, self.iteration, self.config)
            save(state, self.folder / "checkpoints" / "last.pt")

    def _due(self, every: int, iteration: int) -> bool:
        return every > 0 and (iteration % every == 0 or iteration == self.iterations)

    def _progress(self) -> Row:
        return {
            "progress/iteration": self.iteration,
            "progress/real_images": self.reals.images,
            "progress/d_updates": self.gan.d_updates,
            "progress/g_updates": self.gan.g_updates,
        }

    def _measure(self) -> Row:
        gan = self.gan
        values: Row = {**gan.meter.means(gan.measurements())}
        total_ms = self.timer.read_ms()
        iterations = self.iteration - self._logged_iteration
        images = self.reals.images - self._logged_images
        self._logged_iteration, self._logged_images = self.iteration, self.reals.images
        times: Row = {f"time/{name}_ms": total_ms.get(name, 0.0) / iterations for name in ("iteration", "data", "d", "g")}
        speed: Row = {"speed/images_per_s": 1000 * images / total_ms["iteration"]}
        return values | times | speed | {"memory/peak_mib": peak_memory_mib(self.device)}

    @torch.no_grad()
    def _draw(self) -> Row:
        generator, discriminator, reals = self.ema.average, self.gan.discriminator, self.reals.last
        pictures: dict[str, np.ndarray] = {}
        with _evaluating(generator, discriminator):
            if reals.dim() != 4:
                pictures["samples"] = scatter(reals, generator(self.gan.prior.fixed(1024)))
            else:
                images = generator(self.gan.prior.fixed(64))
                pictures["samples"] = image_grid(images)
                reconstruct = getattr(discriminator, "reconstruct", None)
                if reconstruct:
                    shown = torch.cat([reals[:16], images[:16]])
                    pictures["reconstructions"] = side_by_side(shown, reconstruct(shown))
        return {key: Picture(image, f"samples/{key}_{self.iteration:07d}.png") for key, image in pictures.items()}

    def _finish(self, state: str, start: float) -> Summary:
        last = {key: value.path if isinstance(value, Picture) else value for key, value in self.last_row.items()}
        paths = {key: place for book in self.books for key, place in book.signposts().items()}
        if self.folder:
            paths = {"folder": str(self.folder)} | paths
            latest = self.folder / "checkpoints" / "last.pt"
            paths |= {"checkpoint": str(latest)} if latest.exists() else {}
        wall_s = time.perf_counter() - start
        summary = {"state": state, "iteration": self.iteration, "wall_s": wall_s, "paths": paths, "last": last}
        try:
            for book in self.books:
                book.close(failed=state == "failed")
        finally:
            if self.folder:
                (self.folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
        return summary


class _Watched:
    """The real batches, counted and timed on their way to the strategy."""

    def __init__(self, reals: Iterator[Tensor], gan: GAN) -> None:
        self.reals = reals
        self.gan = gan
        self.images = 0
        self.last: Tensor

    def __iter__(self) -> Iterator[Tensor]:
        return self

    def __next__(self) -> Tensor:
        with self.gan.phase("data"):
            self.last = next(self.reals)
        self.images += len(self.last)
        return self.last


@contextmanager
def _evaluating(*networks: nn.Module) -> Iterator[None]:
    """Put networks into evaluation mode for a while: what is looked at must not move any running statistics."""
    modes = [network.training for network in networks]
    for network in networks:
        network.eval()
    try:
        yield
    finally:
        for network, mode in zip(networks, modes, strict=True):
            network.train(mode)
