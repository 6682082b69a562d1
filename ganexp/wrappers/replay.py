"""A wrapper that shows D fakes of earlier iterations besides the current ones."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import torch
from annotated_types import Ge, Le
from torch import Tensor

from ganexp.batch import Batch
from ganexp.facts import Facts, Misfit
from ganexp.gan import GAN
from ganexp.ranges import checked
from ganexp.streams import reseeded, stream
from ganexp.wrappers.base import Remembering, seen


class Replay(Remembering):
    """A share of the fakes in D's objective and penalty are taken from earlier iterations (Shrivastava et al. 2017).

    As in section 2.3, they come from distinct random places of a buffer, with the labels that they were generated under. The
    current fakes that they replace go into the buffer at random places. Until the buffer is full, all fakes go into it, and D
    sees the current ones. G's objective always uses the current fakes; if it shares D's scores of them, they are scored again.
    Random places have a stream of their own. With several processes, each holds the whole buffer.

    Departures: the share is the paper's ½ only by default, and D has not seen the fakes that go into the buffer.

    Args:
        strategy: The strategy inside; one whose G learns through D's objective is refused.
        size: Number of fakes in the buffer; with packing, of packs.
        share: Share of D's fakes that come from the buffer, rounded; with 0, the wrapper does nothing.
    """

    in_turns = True

    @checked
    def __init__(
        self,
        strategy: Callable[..., None],
        *,
        size: Annotated[int, Ge(1)] = 1000,
        share: Annotated[float, Ge(0), Le(1)] = 0.5,
    ) -> None:
        super().__init__(strategy)
        if share and self.learns_through_d_loss:
            raise Misfit(
                "shows D earlier fakes, which have no graph, and in this strategy G learns through D's objective",
                strategy="joint",
            )
        self.size = size
        self.share = share
        self.passed = Counter(draws=0)
        self.kept: list[Tensor] = []
        self._begun_at, self._batch_size, self._seed = 0, 0, 0
        self._streams: list[torch.Generator] = []  # one for each draw of an iteration, seeded by the draw's number
        self._seeded: list[int] = []  # with which numbers

    def check(self, run: Facts) -> None:
        if not self.share:
            return
        others = round(self.share * run.scored)
        if not others:
            raise Misfit(f"takes share={self.share} of a batch's {run.scored} fakes, which is none", share=0.5)
        if self.size < others:
            raise Misfit(f"takes {others} fakes of a batch from a buffer of size={self.size}", size=run.scored)
        each = math.prod(run.shape) * run.pack * run.itemsize
        if self.size * each > run.free_bytes:
            needed, free = self.size * each / 2**30, run.free_bytes / 2**30
            half = run.free_bytes // (2 * each)
            raise Misfit(f"has a buffer that takes {needed:,.1f} GiB, and {free:,.1f} GiB are free", size=half)
        most = 2 * run.iterations * run.d_steps * run.scored  # extragradient draws twice
        if run.constant_steps and most <= self.size:
            run.warn(
                f"shows D no earlier fakes within iterations={run.iterations}, for which its buffer is not full: lower size"
            )

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        if self.share:
            gan = seen(gan, shown_to_d=partial(self.mixed, gan))
        self._begun_at = self.passed["draws"]
        super().__call__(gan, reals, d_steps=d_steps, g_steps=g_steps)

    @torch.no_grad()
    def mixed(self, gan: GAN, fake: Batch) -> Batch:
        """Return the fakes that D is shown, and put some of the current ones into the buffer."""
        fake = Batch.of(fake)
        new = [gan.processes.gather(tensor.detach()) for tensor in (fake.values, *fake.conditions)]
        batch_size = len(new[0])
        others = round(self.share * batch_size)
        if others > self.size:
            raise ValueError(f"size={self.size} is less than the {others} fakes of a batch that come from the buffer")
        if not self.kept:
            self.kept = [tensor.new_zeros(self.size, *tensor.shape[1:]) for tensor in new]
        if [tensor.shape for tensor in self.kept] != [(self.size, *tensor.shape[1:]) for tensor in new]:
            raise ValueError("the buffer of replay does not hold samples like those of the generator, or not size of them")
        filled = min(self.size, self.passed["draws"] * batch_size)
        rng = self._drawing(gan.seed, new[0].device)
        self._batch_size = batch_size
        self.passed["draws"] += 1
        if filled < self.size:
            for kept, tensor in zip(self.kept, new, strict=True):
                kept[filled : filled + batch_size].copy_(tensor[: self.size - filled])
            return replace(fake, source=None, target=None)  # as later, since the buffer does not keep them
        taken, replaced = (new[0].new_empty(self.size).uniform_(generator=rng).topk(others).indices for _ in range(2))
        shown = [torch.cat([tensor[: batch_size - others], kept[taken]]) for kept, tensor in zip(self.kept, new, strict=True)]
        for kept, tensor in zip(self.kept, new, strict=True):
            kept.index_copy_(0, replaced, tensor[batch_size - others :])
        return gan.processes.own(Batch(shown[0], tuple(shown[1:])))

    def _drawing(self, seed: int, device: torch.device) -> torch.Generator:
        """Return the stream of the next draw."""
        draw = self.passed["draws"]
        place, self._seed = draw - self._begun_at, seed
        if place == len(self._streams):
            self._streams.append(stream(seed, "replay", device, draw))
            self._seeded.append(draw)
        self._seed_stream(place, draw)
        return self._streams[place]

    def _seed_stream(self, place: int, draw: int) -> None:
        if self._seeded[place] != draw:  # a generator cannot be seeded within a recording
            reseeded(self._streams[place], self._seed, "replay", draw)
            self._seeded[place] = draw

    def prepare(self) -> None:
        super().prepare()
        for place in range(len(self._streams)):
            self._seed_stream(place, self.passed["draws"] + place)

    def streams(self) -> list[torch.Generator]:
        return [*self._streams, *super().streams()]

    def turn(self, d_steps: int, g_steps: int) -> Hashable:
        """Return a turn of its own for each iteration that fills the buffer, since each writes to other places of it."""
        draws = self.passed["draws"]
        is_full = self._batch_size and draws * self._batch_size >= self.size
        return (None if is_full or not self.share else draws), super().turn(d_steps, g_steps)

    def counters(self) -> list[Counter[str]]:
        return [self.passed, *super().counters()]

    def remembered(self) -> dict[str, Any]:
        return {**self.passed, "kept": self.kept}

    def remember(self, state: dict[str, Any]) -> None:
        self.passed["draws"], self.kept = state["draws"], [tensor.clone() for tensor in state["kept"]]
        self._streams, self._seeded = [], []
