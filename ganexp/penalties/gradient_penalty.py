"""Penalties on the gradient norm of D between real and generated samples."""

from typing import Annotated

import torch
from annotated_types import Ge, Gt
from torch import Tensor
from torch.nn.functional import relu

from ganexp.batch import Batch
from ganexp.penalties.base import Discriminator
from ganexp.penalties.gradient_norms import norms, refuse_unpaired
from ganexp.penalties.lazy import Lazy
from ganexp.ranges import checked
from ganexp.streams import stream


class GradientPenalty(Lazy):
    """weight · mean (‖∇D(x̂)‖₂ − 1)², x̂ uniform between paired real and generated images (Gulrajani et al. 2017).

    The gradient at an image is meant to be that of its own score alone, so D should have no batch norm.
    """

    needs_logits = True
    demands = frozenset({"gradient norm 1"})
    differentiates_gradients = True

    def begin(self, seed: int, device: torch.device) -> None:
        self.rng = stream(seed, "gradient penalty", device)

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor:
        refuse_unpaired("the gradient penalty", x, fake)
        real, made = x.values, fake.values
        everyone = self.processes.count * len(real)
        share = torch.empty(everyone, *[1] * (real.dim() - 1), device=real.device, dtype=real.dtype)
        between = torch.lerp(made, real, self.processes.own(share.uniform_(generator=self.rng)))
        return self.cost(norms(discriminator, Batch(between, x.conditions)))

    def cost(self, norm: Tensor) -> Tensor:
        """Return what each gradient's norm costs, `(B,)`."""
        return (norm - 1).square()


class LipschitzPenalty(GradientPenalty):
    """weight · mean max(0, ‖∇D(x̂)‖₂ − 1)²: one-sided, since flatness is allowed (Petzka et al. 2018, WGAN-LP)."""

    demands = frozenset({"gradient norm up to 1"})

    def cost(self, norm: Tensor) -> Tensor:
        return relu(norm - 1).square()


class DivergencePenalty(GradientPenalty):
    """weight · mean ‖∇D(x̂)‖₂ᵖ, which with Wasserstein's loss is a divergence (Wu et al. 2018, WGAN-div, algorithm 1).

    Args:
        weight: The paper's k.
        power: The paper's p, above 1.
        every: As in `Lazy`.
    """

    demands = frozenset({"gradient norm 0"})

    @checked
    def __init__(
        self,
        *,
        weight: Annotated[float, Ge(0)] = 2.0,
        power: Annotated[float, Gt(1)] = 6.0,
        every: Annotated[int, Ge(1)] = 1,
    ) -> None:
        super().__init__(weight=weight, every=every)
        self.power = power

    def cost(self, norm: Tensor) -> Tensor:
        return norm.pow(self.power)
