"""Simultaneous: one forward pass, both backward passes before either step."""

from collections.abc import Iterator

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.base import declared
from ganexp.strategies.simultaneous import simultaneous


@declared(family="simultaneous")
@simultaneous
def joint(gan: GAN, reals: Iterator[Batch]) -> None:
    """Move both networks by gradients taken at the same point. Trace: `z G r f DG+`.

    min(d_steps, g_steps) updates move both networks; the further steps of one network are made alone, each on a new batch.
    `d_steps=1 g_steps=2` is SoftmaxGAN's recipe (Lin 2017).
    """
    x, fake = next(reals), gan.generate(gan.sample())
    gan.update_both(*gan.losses(x, fake))
