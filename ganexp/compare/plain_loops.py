"""The loops that people write without a framework: the baselines of the framework's overhead."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ganexp.gan import GAN
from ganexp.training import Trainer

Step = Callable[[], None]


def images_of(trainer: Trainer) -> Iterator[Tensor]:
    """Yield the images that a trainer's feed gives, as plain tensors."""
    for batch in trainer.reals.source:
        yield batch.values


def textbook(gan: GAN, images: Iterator[Tensor], *, switch_off_d: bool = False) -> Step:
    """Return `detach` as in tutorials: `loss.backward()` in G's step also computes D's gradients, which are thrown away.

    With `switch_off_d`, D's gradients are switched off in G's step.
    """
    generator, discriminator, optimizer_g, optimizer_d = gan.generator, gan.discriminator, gan.optimizer_g, gan.optimizer_d

    def step() -> None:
        x = next(images)
        fake = generator(torch.randn(len(x), gan.prior.latent_dim, device=x.device, dtype=x.dtype))
        optimizer_d.zero_grad()
        d_loss = -logsigmoid(discriminator(x)).mean() - logsigmoid(-discriminator(fake.detach())).mean()
        d_loss.backward()
        optimizer_d.step()
        if switch_off_d:
            discriminator.requires_grad_(False)
        optimizer_g.zero_grad()
        g_loss = -logsigmoid(discriminator(fake)).mean()
        g_loss.backward()
        optimizer_g.step()
        if switch_off_d:
            discriminator.requires_grad_(True)

    return step


def lean(gan: GAN, images: Iterator[Tensor]) -> Step:
    """Return `textbook` with D's gradients switched off in G's step."""
    return textbook(gan, images, switch_off_d=True)
