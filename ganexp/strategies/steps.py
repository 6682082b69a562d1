"""Shared steps of strategies: an update of one network on a batch of its own, a look ahead, and learning rates."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ganexp.batch import Batch
from ganexp.gan import GAN


def d_step(gan: GAN, reals: Iterator[Batch]) -> Batch:
    """Update D on a new real batch and new fakes, and return the real batch. Trace: `z G r f D+`."""
    x = next(reals)
    with torch.no_grad():
        fake = gan.generate(gan.sample())
    gan.update_d(gan.d_loss(x, fake))
    return x


def g_step(gan: GAN, reals: Iterator[Batch]) -> None:
    """Update G on new fakes, with a new real batch only if the loss compares with one. Trace: `z G [r] f G+`."""
    x = gan.reals_for_g(reals)
    gan.update_g(gan.g_loss(x, gan.generate(gan.sample_for_g())))


@contextmanager
def looking_ahead(parameters: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Restore parameters at the end from copies, which are yielded; the optimisers' states are not restored."""
    copies = [p.detach().clone() for p in parameters]
    try:
        yield copies
    finally:
        with torch.no_grad():
            torch._foreach_copy_([*parameters], copies)


@torch.no_grad()
def stretch(parameters: Sequence[Tensor], start: Sequence[Tensor], factor: float | Tensor) -> None:
    """Multiply the distance of parameters from their starting point by `factor`; 1 changes no bit of them."""
    shares: Any = [factor] * len(start) if isinstance(factor, Tensor) else factor
    torch._foreach_copy_([*parameters], torch._foreach_lerp([*start], [*parameters], shares))


def rates(gan: GAN, rate: float | Tensor | None) -> tuple[float | Tensor, float | Tensor]:
    """Return η of D and of G: the given rate, or the rate of each optimiser's first parameter group."""
    if rate is not None:
        return rate, rate
    return gan.optimizer_d.param_groups[0]["lr"], gan.optimizer_g.param_groups[0]["lr"]
