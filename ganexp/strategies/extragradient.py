"""Look ahead, go back, and step with the gradients found there."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.steps import d_step, g_step


def extragradient(gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
    """Korpelevich 1976; for GANs Gidel et al. 2019, algorithm 3. Trace: `z G r f (DG+) z G r f DG+`.

    The step ahead and the step proper draw a batch each. As in the paper's ExtraAdam, an optimiser with state moves
    its state at both. Steps that only one network has left are those of `joint`.
    """
    both = min(d_steps, g_steps)
    for _ in range(both):
        with _looking_ahead(gan):
            x, fake = next(reals), gan.generate(gan.sample())
            gan.move(*gan.gradients(*gan.losses(x, fake)))
            x, fake = next(reals), gan.generate(gan.sample())
            d, g = gan.losses(x, fake)
            there = gan.gradients(d, g)
        gan.update_both(d, g, there)
    for _ in range(d_steps - both):
        d_step(gan, reals)
    for _ in range(g_steps - both):
        g_step(gan, reals)


@contextmanager
def _looking_ahead(gan: GAN) -> Iterator[None]:
    """Let both networks move inside, and put their parameters back at the end; optimisers keep what they saw."""
    here: list[Tensor] = [*gan.g_parameters, *gan.d_parameters]
    kept = [p.detach().clone() for p in here]
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(here, kept)
