"""Alternating, D first, new fakes for G."""

from collections.abc import Iterator

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.base import declared
from ganexp.strategies.steps import d_step, g_step


@declared(family="alternating with new fakes")
def resample(gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int, new_reals: bool = False) -> None:
    """Goodfellow et al. 2014, algorithm 1. Trace: `z G r f D+ z G [r] f G+`.

    G's first update takes the real batch of D's last update, if its loss needs one; with `new_reals`, it draws its own.
    """
    for _ in range(d_steps):
        x = d_step(gan, reals)
    x_g = gan.reals_for_g(reals) if new_reals else x
    gan.update_g(gan.g_loss(x_g, gan.generate(gan.sample_for_g())))
    for _ in range(g_steps - 1):
        g_step(gan, reals)
