"""Alternating, G first, the same latents generated twice."""

from collections.abc import Iterator

import torch

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.base import declared
from ganexp.strategies.steps import d_step, g_step


@declared(needs=("latents",))
def g_first_reuse_z(gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
    """D learns from what the updated G makes of the same latents, as VQGAN's code does. Trace: `z G [r] f G+ G r f D+`.

    It is the mirror image of `reuse_z`. But G has moved between its two passes, so that the second one is not wasted. Both
    updates share a real batch, if the loss of G needs one.
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
