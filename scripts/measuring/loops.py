"""Plain loops of pix2pix and BEGAN, as people write them without a framework."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ganexp.batch import Batch
from ganexp.gan import GAN


def pix2pix(gan: GAN, batches: Iterator[Batch], weight: float = 100.0) -> Callable[[], None]:
    """Return `detach` with sources and an L1 term, as in pix2pix, with D's gradients switched off in G's step."""
    generator, discriminator, optimizer_g, optimizer_d = gan.generator, gan.discriminator, gan.optimizer_g, gan.optimizer_d

    def step() -> None:
        batch = next(batches)
        source, target = batch.source, batch.values
        fake = generator(source)
        optimizer_d.zero_grad()
        d_loss = -logsigmoid(discriminator(target, source)).mean() - logsigmoid(-discriminator(fake.detach(), source)).mean()
        d_loss.backward()
        optimizer_d.step()
        discriminator.requires_grad_(False)
        optimizer_g.zero_grad()
        g_loss = -logsigmoid(discriminator(fake, source)).mean() + weight * (fake - target).abs().mean()
        g_loss.backward()
        optimizer_g.step()
        discriminator.requires_grad_(True)

    return step


def began(gan: GAN, images: Iterator[Tensor], *, gamma: float = 0.5, lambda_k: float = 1e-3) -> Callable[[], None]:
    """Return BEGAN by `detach`, with D's gradients off in G's step and k_t as a tensor."""
    generator, discriminator, optimizer_g, optimizer_d = gan.generator, gan.discriminator, gan.optimizer_g, gan.optimizer_d
    k_t = torch.zeros((), device=gan.prior.device)

    def step() -> None:
        x = next(images)
        fake = generator(torch.rand(len(x), gan.prior.latent_dim, device=x.device, dtype=x.dtype) * 2 - 1)
        optimizer_d.zero_grad()
        real_error = discriminator(x).mean()
        (real_error - k_t * discriminator(fake.detach()).mean()).backward()
        optimizer_d.step()
        discriminator.requires_grad_(False)
        optimizer_g.zero_grad()
        fake_error = discriminator(fake).mean()
        fake_error.backward()
        optimizer_g.step()
        discriminator.requires_grad_(True)
        with torch.no_grad():
            k_t.add_(lambda_k * (gamma * real_error - fake_error)).clamp_(0, 1)

    return step
