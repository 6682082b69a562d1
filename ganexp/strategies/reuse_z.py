"""Alternating, D first, the same latents generated twice."""

from collections.abc import Iterator

import torch

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.base import declared
from ganexp.strategies.steps import d_step, g_step


@declared(equals="detach", needs=("latents",))
def reuse_z(gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
    """The same updates as `detach`, with a wasted pass of G. Trace: `z G r f D+ G [r] f G+`.

    G does not move between its two passes, so both give the same images. Only the running statistics of G's batch norms, which
    training does not read, include the batch twice.
    """
    for _ in range(d_steps - 1):
        d_step(gan, reals)
    x, z = next(reals), gan.sample()
    with torch.no_grad():
        fake = gan.generate(z)
    gan.update_d(gan.d_loss(x, fake))
    gan.update_g(gan.g_loss(x, gan.generate(z)))
    for _ in range(g_steps - 1):
        g_step(gan, reals)
