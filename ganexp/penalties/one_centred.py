"""Penalties that pull D's gradient norm to 1 at and around real samples."""

from collections.abc import Sequence
from typing import Annotated

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from ganexp.batch import Batch
from ganexp.penalties.base import Discriminator
from ganexp.penalties.gradient_norms import norms
from ganexp.penalties.lazy import Lazy
from ganexp.ranges import checked
from ganexp.streams import stream


class OneCentred(Lazy):
    """weight · mean (‖∇D(x)‖₂ − 1)² at real samples.

    It is `Dragan` without noise; `GradientPenalty` has the same term between real and generated samples.
    """

    needs_logits = True
    demands = frozenset({"gradient norm 1"})
    differentiates_gradients = True

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor:
        return (norms(discriminator, x) - 1).square()


class Dragan(OneCentred):
    """weight · mean (‖∇D(x + δ)‖₂ − 1)² around real samples (Kodali et al. 2017).

    δ = α · noise · s · u, where s is the standard deviation of all numbers of the real batch, α is drawn uniformly from
    (0, 1) for each sample, and u for each of its numbers. Departure: that is the noise of the authors' experiments; the paper's
    equation has normal noise of a fixed variance.

    Args:
        weight: The paper's λ.
        noise: Largest δ, in standard deviations of the data.
        every: As in `Lazy`.
    """

    @checked
    def __init__(
        self,
        *,
        weight: Annotated[float, Ge(0)] = 10.0,
        noise: Annotated[float, Gt(0)] = 0.5,
        every: Annotated[int, Ge(1)] = 1,
    ) -> None:
        super().__init__(weight=weight, every=every)
        self.noise = noise

    def begin(self, seed: int, device: torch.device) -> None:
        self.rng = stream(seed, "dragan", device)

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor:
        real = x.values
        share = self._uniform(real, [1] * (real.dim() - 1))
        spread = self.processes.gather(real).std(unbiased=False)
        delta = share * self.noise * spread * self._uniform(real, real.shape[1:])
        return super().__call__(discriminator, Batch(real + delta, x.conditions), fake)

    def _uniform(self, like: Tensor, shape: Sequence[int]) -> Tensor:
        """Draw numbers from [0, 1) for each sample, `(B, *shape)`."""
        drawn = torch.empty(self.processes.count * len(like), *shape, device=like.device, dtype=like.dtype)
        return self.processes.own(drawn.uniform_(generator=self.rng))
