"""Simultaneous, by a single backward pass through D."""

from collections.abc import Iterator

from torch import Tensor

from ganexp.gan import GAN
from ganexp.strategies.steps import d_step, g_step


def one_stage(gan: GAN, reals: Iterator[Tensor], *, d_steps: int, g_steps: int) -> None:
    """The updates of `joint`, cheaper (Shen et al. 2021; see `ganexp.one_pass`). Trace: `z G r f DG+`.

    Raises:
        ValueError: Images interact inside D, and the loss is one for which that matters.
    """
    both = min(d_steps, g_steps)
    for _ in range(both):
        x, fake = next(reals), gan.generate(gan.sample())
        gan.move_both(*gan.gradients_in_one_pass(x, fake))
    for _ in range(d_steps - both):
        d_step(gan, reals)
    for _ in range(g_steps - both):
        g_step(gan, reals)
