"""What several strategies share: an update of one network on a batch of its own, a look ahead, and η."""

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
    """Let parameters move inside, and put them back at the end to copies, which are yielded; optimisers keep what they saw."""
    here = [p.detach().clone() for p in parameters]
    try:
        yield here
    finally:
        with torch.no_grad():
            torch._foreach_copy_([*parameters], here)


@torch.no_grad()
def stretch(parameters: Sequence[Tensor], start: Sequence[Tensor], factor: float | Tensor) -> None:
    """Move parameters to `factor` times their distance from where they started; 1 leaves every bit of them as it is."""
    shares: Any = [factor] * len(start) if isinstance(factor, Tensor) else factor
    torch._foreach_copy_([*parameters], torch._foreach_lerp([*start], [*parameters], shares))


def rates(gan: GAN, rate: float | Tensor | None) -> tuple[float | Tensor, float | Tensor]:
    """Return η of D and of G: a given rate, or the optimisers' own, each that of its first parameter group."""
    if rate is not None:
        return rate, rate
    return gan.optimizer_d.param_groups[0]["lr"], gan.optimizer_g.param_groups[0]["lr"]
