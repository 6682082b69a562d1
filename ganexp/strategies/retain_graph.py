"""Alternating, D first, the fakes never detached."""

from collections.abc import Iterator

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.base import declared
from ganexp.strategies.steps import d_step, g_step


@declared(equals="detach")
def retain_graph(gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
    """The same updates as `detach`, with D's graph kept alive beside G's. Trace: `z G r f D+ [r] f G+`."""
    for _ in range(d_steps - 1):
        d_step(gan, reals)
    x, fake = next(reals), gan.generate(gan.sample())
    d = gan.d_loss(x, fake)
    gan.update_d(d, retain_graph=True)
    gan.update_g(gan.g_loss(x, fake))
    for _ in range(g_steps - 1):
        g_step(gan, reals)
