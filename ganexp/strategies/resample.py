"""Alternating, D first, new fakes for G."""

from collections.abc import Iterator

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.steps import d_step, g_step


def resample(gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
    """Goodfellow et al. 2014, algorithm 1. Trace: `z G r f D+ z G [r] f G+`.

    The first generator update looks at the real batch of the last discriminator update, if its loss needs one.
    """
    for _ in range(d_steps):
        x = d_step(gan, reals)
    gan.update_g(gan.g_loss(x, gan.generate(gan.sample())))
    for _ in range(g_steps - 1):
        g_step(gan, reals)
