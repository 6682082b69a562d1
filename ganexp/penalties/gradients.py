"""Penalties on the gradient of D with respect to its input: at real samples, at generated ones, between or around them."""

from dataclasses import replace
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt
from torch import Tensor
from torch.nn.functional import relu

from ganexp.batch import Batch, Discriminator, per_sample
from ganexp.penalties.base import Demand
from ganexp.penalties.lazy import Lazy
from ganexp.ranges import checked
from ganexp.streams import stream

ZERO: frozenset[Demand] = frozenset({"gradient norm 0"})
ONE: frozenset[Demand] = frozenset({"gradient norm 1"})


class OfGradient(Lazy):
    """A penalty on the gradient of each sample's own score, so that D should have no batch norm."""

    needs_logits = True
    differentiates_gradients = True

    def uniform(self, like: Tensor, *shape: int) -> Tensor:
        """Draw numbers from [0, 1) for each sample, `(B, *shape)`."""
        drawn = torch.empty(self.processes.count * len(like), *shape, device=like.device, dtype=like.dtype)
        return self.processes.own(drawn.uniform_(generator=self.rng))


class R1(OfGradient):
    """γ/2 · mean ‖∇D(x)‖² at real samples (Mescheder et al. 2018, equation 9); γ is `weight`."""

    demands = ZERO

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor:
        return _half_square(discriminator, x)


class R2(OfGradient):
    """γ/2 · mean ‖∇D(G(z))‖² at generated samples (Mescheder et al. 2018, equation 10); γ is `weight`."""

    demands = ZERO

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor:
        return _half_square(discriminator, fake)


class R1R2(OfGradient):
    """R1 and R2 with one γ, as in R3GAN (Huang et al. 2024)."""

    demands = ZERO

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor:
        refuse_unpaired("r1r2", x, fake)
        return _half_square(discriminator, x) + _half_square(discriminator, fake)


class OneCentred(OfGradient):
    """weight · mean (‖∇D(x)‖₂ − 1)² at real samples.

    It is `Dragan` without noise; `GradientPenalty` has the same term between real and generated samples.
    """

    demands = ONE

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

    on_device: ClassVar = {"weight": None, "noise": None}

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
        share = self.uniform(real, *[1] * (real.dim() - 1))
        spread = self.processes.gather(real).std(unbiased=False)
        delta = share * self.noise * spread * self.uniform(real, *real.shape[1:])
        return super().__call__(discriminator, replace(x, values=real + delta), fake)


class GradientPenalty(OfGradient):
    """weight · mean (‖∇D(x̂)‖₂ − 1)², x̂ uniform between paired real and generated images (Gulrajani et al. 2017)."""

    demands = ONE

    def begin(self, seed: int, device: torch.device) -> None:
        self.rng = stream(seed, "gradient penalty", device)

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor:
        refuse_unpaired("the gradient penalty", x, fake)
        real, generated = x.values, fake.values
        between = torch.lerp(generated, real, self.uniform(real, *[1] * (real.dim() - 1)))
        return self.cost(norms(discriminator, replace(x, values=between)))

    def cost(self, norm: Tensor) -> Tensor:
        """Return the penalty on each gradient's norm, `(B,)`."""
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

    demands = ZERO

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


def norms(discriminator: Discriminator, at: Batch) -> Tensor:
    """Return ‖∇D‖₂ at each sample, `(B,)`."""
    return torch.linalg.vector_norm(score_gradients(discriminator, at), dim=1)


def score_gradients(discriminator: Discriminator, at: Batch) -> Tensor:
    """Return the score's gradient ∇D at each sample, `(B, n)` for samples of n numbers, which can itself be differentiated.

    Samples with a graph, such as fakes in unrolled steps, keep it; ∇D is taken at fixed weights even if the weights depend on
    such samples.
    """
    values = at.values if at.values.requires_grad else at.values.detach().requires_grad_()
    values = values.view_as(values)  # weights cannot depend on a new view; counting operations fails for leaves
    (gradient,) = torch.autograd.grad(per_sample(discriminator(values, *at.conditions)).sum(), values, create_graph=True)
    return gradient.flatten(1)


def refuse_unpaired(penalty: str, x: Batch, fake: Batch) -> None:
    """Refuse batches of different shapes."""
    real, generated = tuple(x.values.shape), tuple(fake.values.shape)
    if real != generated:
        raise ValueError(f"{penalty} pairs real with fake, but their shapes are {real} and {generated}")


def _half_square(discriminator: Discriminator, at: Batch) -> Tensor:
    return 0.5 * score_gradients(discriminator, at).square().sum(1)
