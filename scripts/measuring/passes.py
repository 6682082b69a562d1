"""The operations of an iteration, counted in forward passes through D and G."""

import copy
import functools
import itertools
from collections.abc import Callable

import numpy as np
import torch

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.instruments.counting import operations
from ganexp.losses import Minimax
from ganexp.networks import DCGANDiscriminator, DCGANGenerator
from ganexp.prior import Prior


def forward_gflop(gan: GAN) -> tuple[float, float]:
    """Return the Gflop of one forward pass of a batch through G and through D."""
    with torch.no_grad():
        z = gan.sample()
        fake = gan.generate(z)
        return operations(lambda: gan.generate(z)) / 1e9, operations(lambda: gan.score_fake(fake)) / 1e9


def in_passes(strategy: Callable[..., None], *, redundant_gradients: bool = False) -> tuple[int, int]:
    """Return the cost of one iteration in forward passes of a batch through D and through G: for `8d + 3g`, 8 and 3.

    The operations are a sum of whole multiples of those of both networks and of their first layers, which compute no gradient
    with respect to data. The four multiples are solved for by counting with several different pairs of networks.

    Raises:
        ValueError: Other operations take part, so that no four multiples explain all pairs.
    """
    units, counts = [], []
    for width_g, width_d, channels, latents in ((4, 4, 1, 3), (8, 4, 3, 5), (4, 8, 2, 7), (8, 8, 3, 2), (4, 4, 3, 9)):
        shape, batch = (channels, 16, 16), 2
        generator = DCGANGenerator(latents, shape, width=width_g, batch_norm=False)
        discriminator = DCGANDiscriminator(shape, width=width_d)
        gan = GAN(
            generator,
            discriminator,
            Minimax(),
            torch.optim.SGD(generator.parameters(), lr=1e-3),
            torch.optim.SGD(discriminator.parameters(), lr=1e-3),
            Prior(latents),
            batch_size=batch,
            redundant_gradients=redundant_gradients,
        )
        x, z = torch.randn(batch, *shape), torch.randn(batch, latents)
        with torch.no_grad():
            networks = ((discriminator, x), (generator, z), (discriminator.layers[:1], x), (generator.layers[:2], z))
            units.append([operations(functools.partial(network, values)) for network, values in networks])
        step = functools.partial(copy.deepcopy(strategy), gan, itertools.repeat(Batch(x)), d_steps=1, g_steps=1)
        step()  # the first iteration may include checks that later ones skip
        counts.append(operations(step))
    multiples = np.linalg.lstsq(np.array(units, float), np.array(counts, float))[0].round().astype(int)
    if not (np.array(units) @ multiples == counts).all():
        raise ValueError("its operations are no whole multiples of those of the networks")
    return int(multiples[0]), int(multiples[1])
