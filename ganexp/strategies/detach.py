"""Alternating, D first, one batch of fakes for both: the usual loop, and the default."""

from collections.abc import Iterator

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.base import declared
from ganexp.strategies.steps import d_step, g_step


@declared(family="alternating with the same fakes")
def detach(gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
    """D learns from detached fakes, G through the graph of the same fakes. Trace: `z G r f D+ [r] f G+`."""
    for _ in range(d_steps - 1):
        d_step(gan, reals)
    x, fake = next(reals), gan.generate(gan.sample())
    gan.update_d(gan.d_loss(x, fake.detach()))
    gan.update_g(gan.g_loss(x, fake))
    for _ in range(g_steps - 1):
        g_step(gan, reals)
