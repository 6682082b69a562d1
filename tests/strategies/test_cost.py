"""What an iteration costs: passes and floating-point operations, counted.

Unit d or g: one forward pass of a batch through D or G. A backward pass with gradients of all parameters costs 2, one
for inputs only costs 1. To be exact to the last operation, the first layer is told apart: it needs no gradient of its
input where that is data, which saves d1 or g1, the cost of the first layer's forward pass.
"""

import functools
import itertools

import pytest
import torch

from ganexp import GAN, Prior
from ganexp.instruments.counting import LiveActivations, operations, weights_of
from ganexp.losses import Minimax, NonSaturating, SoftmaxGAN
from ganexp.networks import DCGANDiscriminator, DCGANGenerator
from ganexp.strategies import Drift, Unrolled
from measuring.passes import in_passes
from tests.tiny import STRATEGIES, ZERO_SUM

SHAPE, BATCH, LATENT = (3, 16, 16), 4, 6


def made(loss, redundant_gradients):
    generator = DCGANGenerator(LATENT, SHAPE, width=4, batch_norm=False)
    discriminator = DCGANDiscriminator(SHAPE, width=4)
    optimizers = [torch.optim.SGD(network.parameters(), lr=1e-3) for network in (generator, discriminator)]
    settings = {"batch_size": BATCH, "redundant_gradients": redundant_gradients}
    return GAN(generator, discriminator, loss, *optimizers, Prior(LATENT), **settings)


def units(gan):
    """Return d, g, d1, g1 in floating-point operations, from forward passes alone."""
    x, z = torch.randn(BATCH, *SHAPE), torch.randn(BATCH, LATENT)
    with torch.no_grad():
        first_d, first_g = gan.discriminator.layers[:1], gan.generator.layers[:2]
        passes = (lambda: gan.discriminator(x), lambda: gan.generator(z), lambda: first_d(x), lambda: first_g(z))
        return [operations(one) for one in passes]


# strategy: cost with redundant gradients on, and off, as (d, g, d1, g1); and (d, d1) that a loss that needs real scores adds
COST = {
    "resample": ((9, 4, -2, -1), (8, 4, -2, -1), (1, 0)),
    "reuse_z": ((9, 4, -2, -1), (8, 4, -2, -1), (1, 0)),
    "detach": ((9, 3, -2, -1), (8, 3, -2, -1), (1, 0)),
    "retain_graph": ((9, 5, -1, -2), (8, 3, -2, -1), (1, 0)),
    "g_first": ((9, 3, -2, -1), (8, 3, -2, -1), (1, 0)),
    "g_first_resample": ((9, 4, -2, -1), (8, 4, -2, -1), (1, 0)),
    "g_first_reuse_z": ((9, 4, -2, -1), (8, 4, -2, -1), (1, 0)),
    "joint": ((8, 5, -1, -2), (7, 3, -2, -1), (0, 0)),
    "one_stage": ((6, 3, -1, -1), (6, 3, -1, -1), (0, 0)),
    "extragradient": ((16, 10, -2, -4), (14, 6, -4, -2), (0, 0)),
    "past_extragradient": ((8, 5, -1, -2), (7, 3, -2, -1), (0, 0)),
    "alex_gda": ((9, 4, -2, -1), (8, 4, -2, -1), (1, 0)),
    "runge_kutta": ((16, 10, -2, -4), (14, 6, -4, -2), (0, 0)),
}
COST_OF_BOTH = {
    # those that differentiate both gradients compute nothing redundant
    "consensus": ((21, 9, -7, -4), (0, 0)),
    "symplectic": ((39, 17, -14, -9), (0, 0)),
    "competitive": ((25 + 9 * 3, 15 + 6 * 3, -8 - 3 * 3, -7 - 3 * 3), (0, 0)),
    "jare": ((16, 9, -5, -4), (6, -3)),
    "drift": ((27, 15, -8, -7), (12, -6)),
    "drift_alternating": ((34, 17, -10, -8), (12, -6)),
    "lead": ((27, 15, -8, -7), (12, -6)),
    "hamiltonian": ((21, 9, -7, -4), (0, 0)),
    "follow_the_ridge": ((17 + 12 * 3, 9, -5 - 6 * 3, -4), (6, -3)),
}
COST |= {name: (cost, cost, added) for name, (cost, added) in COST_OF_BOTH.items()}


@pytest.mark.parametrize("loss", [NonSaturating, SoftmaxGAN])
@pytest.mark.parametrize("redundant_gradients", [True, False])
@pytest.mark.parametrize("strategy", COST)
def test_operations(strategy, redundant_gradients, loss):
    if strategy in ZERO_SUM:
        loss = Minimax
    gan = made(loss(), redundant_gradients)
    on, off, (further_d, further_d1) = COST[strategy]
    d, g, d1, g1 = on if redundant_gradients else off
    if loss is SoftmaxGAN:
        d, d1 = d + further_d, d1 + further_d1
    reals = itertools.repeat(torch.randn(BATCH, *SHAPE))
    function = Drift(alternating=True) if strategy == "drift_alternating" else STRATEGIES[strategy]
    function(gan, reals, d_steps=1, g_steps=1)  # the first of one_stage also tries whether images interact
    counted = operations(lambda: function(gan, reals, d_steps=1, g_steps=1))
    assert counted == sum(n * unit for n, unit in zip((d, g, d1, g1), units(gan), strict=True))


@pytest.mark.parametrize("strategy", ["detach", "retain_graph", "one_stage", pytest.param("consensus", marks=pytest.mark.slow)])
def test_costs_in_passes_are_found_from_counts_alone(strategy):
    for redundant_gradients, (d, g, *_) in zip((True, False), COST[strategy], strict=False):
        assert in_passes(STRATEGIES[strategy], redundant_gradients=redundant_gradients) == (d, g)


def test_each_inner_step_of_unrolled_costs_the_same():
    """Two forward passes, their backward passes, and the backward pass through both."""

    def counted(k):
        gan = made(NonSaturating(), False)
        reals = itertools.repeat(torch.randn(BATCH, *SHAPE))
        return operations(lambda: Unrolled(k=k)(gan, reals, d_steps=1, g_steps=1))

    first, second, third = counted(1), counted(2), counted(3)
    assert third - second == second - first > 0


def peak_bytes(strategy):
    torch.manual_seed(0)
    gan = made(NonSaturating(), False)
    reals = itertools.repeat(torch.randn(BATCH, *SHAPE))
    with LiveActivations(weights_of(gan.generator, gan.discriminator)) as loggers:
        STRATEGIES[strategy](gan, reals, d_steps=1, g_steps=1)
    assert loggers.now == 0, "activations outlive the iteration"
    return loggers.peak


@functools.cache
def activations(of):
    """Return the bytes that one forward pass of a batch keeps."""
    torch.manual_seed(0)
    gan = made(NonSaturating(), False)
    network, batch = {
        "d": (gan.discriminator, torch.randn(BATCH, *SHAPE)),
        "g": (gan.generator, torch.randn(BATCH, LATENT)),
    }[of]
    with LiveActivations(weights_of(gan.generator, gan.discriminator)) as loggers:
        network(batch)
    return loggers.peak


IMAGES = BATCH * 3 * 16 * 16 * 4  # bytes of one batch, which G's last layer and D's first one share

PEAK = {
    # strategy: activations at the peak, in those of one batch in G and in D, and batches of images kept for them
    "resample": lambda a_g, a_d: max(2 * a_d + 2 * IMAGES, a_g + a_d + IMAGES),
    "reuse_z": lambda a_g, a_d: max(2 * a_d + 2 * IMAGES, a_g + a_d + IMAGES),
    "detach": lambda a_g, a_d: a_g + 2 * a_d + 2 * IMAGES,
    "retain_graph": lambda a_g, a_d: a_g + 3 * a_d + 2 * IMAGES,
    "g_first": lambda a_g, a_d: max(a_g + a_d + IMAGES, 2 * a_d + 2 * IMAGES),
    "g_first_resample": lambda a_g, a_d: max(a_g + a_d + IMAGES, 2 * a_d + 2 * IMAGES),
    "g_first_reuse_z": lambda a_g, a_d: max(a_g + a_d + IMAGES, 2 * a_d + 2 * IMAGES),
    "joint": lambda a_g, a_d: a_g + 2 * a_d + 2 * IMAGES,
    "one_stage": lambda a_g, a_d: a_g + 2 * a_d + 2 * IMAGES,
    "extragradient": lambda a_g, a_d: a_g + 2 * a_d + 2 * IMAGES,
    "past_extragradient": lambda a_g, a_d: a_g + 2 * a_d + 2 * IMAGES,
}


@pytest.mark.parametrize("strategy", PEAK)
def test_activations_at_the_peak(strategy):
    a_g, a_d = activations("g") - IMAGES, activations("d") - IMAGES
    assert peak_bytes(strategy) == pytest.approx(PEAK[strategy](a_g, a_d), rel=0.01)  # a percent for scores and means
