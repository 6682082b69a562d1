"""G against the discriminator of tomorrow."""

from collections.abc import Iterator

from torch import Tensor

from ganexp.gan import GAN
from ganexp.strategies.steps import d_step


class Unrolled:
    """G descends its loss after `k` differentiable D steps, which are then undone (Metz et al. 2017, equations 10, 11).

    Both networks move from where they were, as in `joint`, which this is for k = 0. Trace: `z G r f DG+`. Departure: the
    inner steps are plain gradient descent, as in the paper's equations; its experiments took Adam's.

    Args:
        k: Inner steps of D, on the batch at hand.
        rate: Size of the inner steps.
    """

    differentiates_gradients = True

    def __init__(self, *, k: int = 5, rate: float = 0.01) -> None:
        if k < 0:
            raise ValueError(f"k must be at least 0, not {k}")
        if not 0 < rate < float("inf"):
            raise ValueError(f"rate must be positive and finite, not {rate}")
        self.k = k
        self.rate = rate

    def __call__(self, gan: GAN, reals: Iterator[Tensor], *, d_steps: int, g_steps: int) -> None:
        """Run one iteration; the steps that only D has left are those of `joint`."""
        both = min(d_steps, g_steps)
        for _ in range(both):
            x, fake = next(reals), gan.generate(gan.sample())
            gan.update_both(gan.d_loss(x, fake.detach()), gan.unrolled_g_loss(x, fake, k=self.k, rate=self.rate))
        for _ in range(d_steps - both):
            d_step(gan, reals)
        for _ in range(g_steps - both):
            x, fake = next(reals), gan.generate(gan.sample())
            gan.update_g(gan.unrolled_g_loss(x, fake, k=self.k, rate=self.rate))
