"""What several strategies share: an update of one network on a batch of its own, and a look ahead."""

from collections.abc import Iterator
from contextlib import contextmanager

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
    gan.update_g(gan.g_loss(x, gan.generate(gan.sample())))


@contextmanager
def looking_ahead(gan: GAN) -> Iterator[None]:
    """Let both networks move inside, and put their parameters back at the end; optimisers keep what they saw."""
    here: list[Tensor] = [*gan.g_parameters, *gan.d_parameters]
    kept = [p.detach().clone() for p in here]
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(here, kept)
