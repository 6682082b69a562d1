"""The cost of an iteration: counted operations and memory."""

import copy
import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from ganexp.batch import Batch
from ganexp.compare.racing import Contender, Times, race
from ganexp.gan import GAN
from ganexp.instruments.counting import LiveActivations, operations, weights_of
from ganexp.losses import Minimax
from ganexp.networks import DCGANDiscriminator, DCGANGenerator
from ganexp.prior import Prior


class Cost(NamedTuple):
    """What an iteration costs: its operations in Gflop, and in MiB the peak of the memory that it adds."""

    gflop: float
    peak_mib: float


@dataclass(kw_only=True)
class Measured(Times):
    """One contender's times from a race, and what an iteration costs."""

    gflop: float
    peak_mib: float


def measured(
    contenders: Mapping[str, Contender], costs: Mapping[str, Cost], *, turns: int, iterations: int, device: torch.device
) -> dict[str, Measured]:
    """Race contenders whose costs have been counted."""
    times = race(contenders, turns=turns, iterations=iterations, device=device)
    return {
        name: Measured(times[name].times_ms, times[name].phases_ms, gflop=own.gflop, peak_mib=own.peak_mib)
        for name, own in costs.items()
    }


def cost(contender: Contender, device: torch.device) -> Cost:
    """Count what an iteration costs; memory is that of live activations on a CPU, and what is allocated on a GPU.

    On a GPU, it must be among the first iterations: a recorded one replays kernels in which no operations can be counted.
    """
    contender.step()  # the first iteration may try what later ones take for granted
    return Cost(operations(contender.step) / 1e9, _peak_mib(contender, device))


def _peak_mib(contender: Contender, device: torch.device) -> float:
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)  # of all contenders
        torch.cuda.reset_peak_memory_stats(device)
        contender.step()
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    assert contender.gan is not None
    with LiveActivations(weights_of(contender.gan.generator, contender.gan.discriminator)) as activations:
        contender.step()
    return activations.peak / 2**20


def forward_gflop(gan: GAN) -> tuple[float, float]:
    """Return the Gflop of one forward pass of a batch through G and through D."""
    with torch.no_grad():
        z = gan.sample()
        fake = gan.generate(z)
        return operations(lambda: gan.generate(z)) / 1e9, operations(lambda: gan.score_fake(fake)) / 1e9


def in_passes(strategy: Callable[..., None], *, redundant_gradients: bool = False) -> tuple[int, int]:
    """Return the cost of one iteration in forward passes of a batch through D and through G: for `8d + 3g`, 8 and 3.

    The operations are a sum of whole multiples of those of both networks and of their first layers, which compute no gradient
    with respect to an input that is data. The four multiples are found from pairs of networks, no two of them alike.

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
        step()  # the first iteration may try what later ones take for granted
        counts.append(operations(step))
    found = np.linalg.lstsq(np.array(units, float), np.array(counts, float))[0].round().astype(int)
    if not (np.array(units) @ found == counts).all():
        raise ValueError("its operations are no whole multiples of those of the networks")
    return int(found[0]), int(found[1])
