"""Alternating, G first, new fakes for D."""

from collections.abc import Iterator

import torch

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.base import declared
from ganexp.strategies.steps import d_step, g_step


@declared(family="alternating with new fakes")
def g_first_resample(gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int, new_reals: bool = False) -> None:
    """D learns from fakes of the updated G. Trace: `z G [r] f G+ z G r f D+`.

    D's first update takes the real batch of G's last update, if its loss needs one; with `new_reals`, it draws its own.
    """
    for _ in range(g_steps - 1):
        g_step(gan, reals)
    x = next(reals)
    x_g = gan.reals_for_g(reals) if new_reals else x
    gan.update_g(gan.g_loss(x_g, gan.generate(gan.sample_for_g())))
    with torch.no_grad():
        fake = gan.generate(gan.sample())
    gan.update_d(gan.d_loss(x, fake))
    for _ in range(d_steps - 1):
        d_step(gan, reals)
