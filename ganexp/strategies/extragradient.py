"""Look ahead, go back, and step with the gradients found there."""

from collections.abc import Iterator

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.simultaneous import simultaneous
from ganexp.strategies.steps import looking_ahead


@simultaneous
def extragradient(gan: GAN, reals: Iterator[Batch]) -> None:
    """Korpelevich 1976; for GANs Gidel et al. 2019, algorithm 3. Trace: `z G r f (DG+) z G r f DG+`.

    The step ahead and the step proper draw a batch each. As in the paper's ExtraAdam, an optimiser with state moves
    its state at both. Steps left over for one network alone are as in `joint`.
    """
    with looking_ahead(gan):
        x, fake = next(reals), gan.generate(gan.sample())
        gan.move(*gan.gradients(*gan.losses(x, fake)))
        x, fake = next(reals), gan.generate(gan.sample())
        d, g = gan.losses(x, fake)
        there = gan.gradients(d, g)
    gan.update_both(d, g, there)
