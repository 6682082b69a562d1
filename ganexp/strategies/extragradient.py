"""Look ahead, go back, and step with the gradients found there."""

from collections.abc import Iterator

from torch import Tensor

from ganexp.gan import GAN
from ganexp.strategies.steps import d_step, g_step


def extragradient(gan: GAN, reals: Iterator[Tensor], *, d_steps: int, g_steps: int) -> None:
    """Korpelevich 1976; for GANs Gidel et al. 2019, algorithm 3. Trace: `z G r f (DG+) z G r f DG+`.

    The step ahead and the step proper draw a batch each. As in the paper's ExtraAdam, an optimiser with state moves
    its state at both. Steps that only one network has left are those of `joint`.
    """
    both = min(d_steps, g_steps)
    for _ in range(both):
        with gan.looking_ahead():
            x, fake = next(reals), gan.generate(gan.sample())
            gan.update_both(*gan.losses(x, fake))
            x, fake = next(reals), gan.generate(gan.sample())
            there = gan.gradients(*gan.losses(x, fake))
        gan.move_both(*there)
    for _ in range(d_steps - both):
        d_step(gan, reals)
    for _ in range(g_steps - both):
        g_step(gan, reals)
