"""Alternating, G first, the same latents generated twice."""

from collections.abc import Iterator

import torch

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.base import declared
from ganexp.strategies.steps import d_step, g_step


@declared(needs=("latents",))
def g_first_reuse_z(gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
    """D learns from the updated G's samples of the same latents, as in VQGAN's code. Trace: `z G [r] f G+ G r f D+`.

    It is the mirror image of `reuse_z`, but G moves between its two passes, so that the second one is not wasted. Both updates
    share a real batch, if G's loss needs one.
    """
    for _ in range(g_steps - 1):
        g_step(gan, reals)
    x, z = next(reals), gan.sample()
    gan.update_g(gan.g_loss(x, gan.generate(z)))
    with torch.no_grad():
        fake = gan.generate(z)
    gan.update_d(gan.d_loss(x, fake))
    for _ in range(d_steps - 1):
        d_step(gan, reals)
