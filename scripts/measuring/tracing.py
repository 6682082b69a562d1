"""Traces of strategies: the verbs that they call, and the lives of autograd graphs."""

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ganexp.batch import Batch, Gradients, Objective
from ganexp.gan import GAN
from ganexp.instruments.counting import SavedTensors, weights_of
from ganexp.losses import Loss, Minimax, SoftmaxGAN
from ganexp.networks import MLPDiscriminator, MLPGenerator
from ganexp.prior import Prior


@dataclass
class Pass:
    """One pass through a network: its letter, its place in the trace, and the place where its graph was freed.

    A pass that builds no graph ends at its start.
    """

    letter: str
    start: int
    end: int
    saved: int = 0


class TracingGAN(GAN):
    """Records the verbs of a strategy, in the letters of the strategies' table.

    `trace` holds `z` (sample latents), `G` (generate), `r` and `f` (score real and generated samples), `D+`, `G+` and `DG+`
    (update D, G, or both), and `(DG+)` where both move to look ahead. `passes` holds one entry for each pass through a network,
    with the lifetime of its graph if the strategy runs inside `LivesOfGraphs`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.trace: list[str] = []
        self.passes: list[Pass] = []
        self.running: Pass | None = None

    def sample(self) -> Batch:
        self.trace.append("z")
        return super().sample()

    def generate(self, z: Batch) -> Batch:
        return self._during("G", super().generate, z)

    def score_real(self, x: Batch) -> Tensor:
        return self._during("r", super().score_real, x)

    def score_fake(self, fake: Batch) -> Tensor:
        return self._during("f", super().score_fake, fake)

    def update_d(self, d: Objective, *, retain_graph: bool = False, gradients: Gradients | None = None) -> None:
        super().update_d(d, retain_graph=retain_graph, gradients=gradients)
        self.trace.append("D+")

    def update_g(self, g: Objective, *, gradients: Gradients | None = None) -> None:
        super().update_g(g, gradients=gradients)
        self.trace.append("G+")

    def move_along(self, d_gradients: Gradients, g_gradients: Gradients) -> tuple[Gradients, Gradients]:
        moved = super().move_along(d_gradients, g_gradients)
        self.trace.append("(DG+)")
        return moved

    def update_both(
        self, d: Objective, g: Objective, gradients: tuple[Gradients, Gradients] | None = None
    ) -> tuple[Gradients, Gradients]:
        moved = super().update_both(d, g, gradients)
        self.trace[-1] = "DG+"
        return moved

    def _during(self, letter: str, run: Callable[[Batch], Any], batch: Batch) -> Any:
        self.running = Pass(letter, len(self.trace), len(self.trace))
        self.passes.append(self.running)
        self.trace.append(letter)
        output = run(batch)
        self.running = None
        return output


class LivesOfGraphs(SavedTensors):
    """A context that attributes the tensors that autograd saves to the running pass, and records when they are freed."""

    def __init__(self, gan: TracingGAN) -> None:
        super().__init__(weights_of(gan.generator, gan.discriminator))
        self.gan = gan

    def saved(self, tensor: Tensor) -> Callable[[], None]:
        """Count a tensor towards its pass until it is freed; the pass ends when its last tensor is freed."""
        owner = self.gan.running
        if owner is None:  # saved by a loss, after the passes
            return lambda: None
        owner.saved += 1

        def freed() -> None:
            owner.saved -= 1
            if owner.saved == 0:
                owner.end = len(self.gan.trace)

        return freed


def traced(strategy: Callable[..., None], loss: Callable[[], Loss] = SoftmaxGAN) -> TracingGAN:
    """Run two iterations on a small GAN, and return it with the trace of the second one, when all state exists."""
    generator, discriminator = MLPGenerator(4, (2,), width=8), MLPDiscriminator((2,), width=8)
    optimizers = [torch.optim.SGD(network.parameters(), lr=1e-3) for network in (generator, discriminator)]
    gan = TracingGAN(generator, discriminator, loss(), *optimizers, Prior(4), batch_size=8)
    for _ in range(2):
        gan.trace.clear()
        gan.passes.clear()
        with LivesOfGraphs(gan):
            strategy(gan, itertools.repeat(Batch(torch.randn(8, 2))), d_steps=1, g_steps=1)
    return gan


def trace(strategy: Callable[..., None]) -> str:
    """Return the trace of an iteration as in the strategies' table, with `[r]` where only some losses score real samples."""
    left = traced(copy.deepcopy(strategy), Minimax).trace
    try:
        every = traced(copy.deepcopy(strategy)).trace
    except ValueError:  # the strategy refuses losses that compare with real scores
        return " ".join(left)
    left = [*left, ""]
    return " ".join(left.pop(0) if letters == left[0] else f"[{letters}]" for letters in every)
