"""A small GAN whose operations are counted, and the units that they are counted in."""

import torch

from ganexp import GAN, Prior
from ganexp.compare.cost import operations
from ganexp.networks import DCGANDiscriminator, DCGANGenerator

SHAPE, BATCH, LATENT = (3, 16, 16), 4, 6


def made(loss, redundant_gradients):
    generator = DCGANGenerator(LATENT, SHAPE, width=4, batch_norm=False)
    discriminator = DCGANDiscriminator(SHAPE, width=4)
    return GAN(
        generator,
        discriminator,
        loss,
        torch.optim.SGD(generator.parameters(), lr=1e-3),
        torch.optim.SGD(discriminator.parameters(), lr=1e-3),
        Prior(LATENT),
        batch_size=BATCH,
        redundant_gradients=redundant_gradients,
    )


def units(gan):
    """Return d, g, d1, g1 in floating-point operations, from forward passes alone."""
    x, z = torch.randn(BATCH, *SHAPE), torch.randn(BATCH, LATENT)
    with torch.no_grad():
        first_d, first_g = gan.discriminator.layers[:1], gan.generator.layers[:2]
        return [
            operations(f)
            for f in (lambda: gan.discriminator(x), lambda: gan.generator(z), lambda: first_d(x), lambda: first_g(z))
        ]
