"""A wrapper that moves latents by a gradient step on D's score before both networks learn from them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt
from torch import Tensor

from ganexp.batch import Batch, per_sample
from ganexp.facts import Facts, Misfit
from ganexp.gan import GAN
from ganexp.ranges import checked
from ganexp.strategies.unrolled import apart
from ganexp.wrappers.base import Wrapper, seen


class LatentStep(Wrapper):
    """z ← z + α ∂f/∂z with f = D(G(z)), wherever latents are drawn (Wu et al. 2019, LOGAN, equations 8 and 12).

    f is the score of each sample, or of its pack, augmented like everything that D scores; its sign is flipped where a low
    score means real. Latents that are uniform on (-1, 1) are clipped to that range, as in the paper. D and its buffers do not
    change; G's batch norm sees one more batch.

    Departures: D's gradient never passes through the step, so that strategies that are equal without the wrapper are equal
    with it, and the length of the step is not penalised.

    Args:
        alpha: Size of the step; with 0, the wrapper does nothing.
        natural: Whether to take each latent's natural gradient, g/(‖g‖² + β), instead of g = ∂f/∂z.
        beta: Its damping β.
        through: Whether G's gradient passes through the step, as in the paper; this takes a gradient of a gradient.
    """

    needs = ("scores", "discriminator", "latents")

    on_device: ClassVar = {"alpha": None, "beta": None}

    @checked
    def __init__(
        self,
        strategy: Callable[..., None],
        *,
        alpha: Annotated[float, Ge(0)] = 0.9,
        natural: bool = True,
        beta: Annotated[float, Gt(0)] = 5.0,
        through: bool = True,
    ) -> None:
        super().__init__(strategy)
        self.alpha: float | Tensor = alpha
        self.natural = natural
        self.beta: float | Tensor = beta
        self.through = through
        self.differentiates_gradients |= through and alpha > 0

    def check(self, run: Facts) -> None:
        if run.source_shape and self.alpha:
            raise Misfit("moves latents, and these data give G sources", wrapper=[])
        if self.alpha and self.through:
            run.refuse_second_derivatives("generator", "discriminator", through=False)

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        if isinstance(self.alpha, Tensor) or self.alpha:
            gan = seen(
                gan,
                sample=partial(self.moved, gan, gan.sample),
                sample_for_g=partial(self.moved, gan, gan.sample_for_g),
            )
        super().__call__(gan, reals, d_steps=d_steps, g_steps=g_steps)

    def moved(self, gan: GAN, sample: Callable[[], Batch]) -> Batch:
        """Draw a batch of latents, `(B, latent_dim)`, and move them; under `no_grad` the step has no graph."""
        drawn = Batch.of(sample())
        through = self.through and torch.is_grad_enabled()
        with torch.enable_grad():
            z = drawn.values.detach().requires_grad_()
            fake = gan.generate(replace(drawn, values=z))
            with gan.phase("g"):
                f = per_sample(gan.score(fake, apart(gan.discriminator))).sum()
                (g,) = torch.autograd.grad(-f if gan.loss.low_is_real else f, z, create_graph=through)
        if through:
            gan.need_second_derivatives("latent_step", [g])
        if self.natural:
            g = g / (g.square().sum(1, keepdim=True) + self.beta)
        moved = drawn.values + self.alpha * g
        if gan.prior.distribution == "uniform":
            moved = moved.clamp(-1, 1)
        return replace(drawn, values=moved)
