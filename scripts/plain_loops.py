"""The loops that a person writes without a framework, for the default loss: what the framework's overhead is measured by."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ganexp import GAN


def textbook(gan: GAN, reals: Iterator[Tensor]) -> Callable[[], None]:
    """`detach` as tutorials have it: `loss.backward()`, which also fills D's gradients in G's step, to be thrown away."""
    generator, discriminator, optimizer_g, optimizer_d = gan.generator, gan.discriminator, gan.optimizer_g, gan.optimizer_d

    def step() -> None:
        x = next(reals)
        fake = generator(torch.randn(len(x), gan.prior.latent_dim, device=x.device, dtype=x.dtype))
        optimizer_d.zero_grad()
        d_loss = -logsigmoid(discriminator(x)).mean() - logsigmoid(-discriminator(fake.detach())).mean()
        d_loss.backward()
        optimizer_d.step()
        optimizer_g.zero_grad()
        g_loss = -logsigmoid(discriminator(fake)).mean()
        g_loss.backward()
        optimizer_g.step()

    return step


def lean(gan: GAN, reals: Iterator[Tensor]) -> Callable[[], None]:
    """`detach` by someone who switches D's gradients off for G's step."""
    generator, discriminator, optimizer_g, optimizer_d = gan.generator, gan.discriminator, gan.optimizer_g, gan.optimizer_d

    def step() -> None:
        x = next(reals)
        fake = generator(torch.randn(len(x), gan.prior.latent_dim, device=x.device, dtype=x.dtype))
        optimizer_d.zero_grad()
        d_loss = -logsigmoid(discriminator(x)).mean() - logsigmoid(-discriminator(fake.detach())).mean()
        d_loss.backward()
        optimizer_d.step()
        discriminator.requires_grad_(False)
        optimizer_g.zero_grad()
        g_loss = -logsigmoid(discriminator(fake)).mean()
        g_loss.backward()
        optimizer_g.step()
        discriminator.requires_grad_(True)

    return step
