"""Every strategy on the Dirac-GAN (Mescheder et al. 2018), against its recurrence worked out by hand.

The generator is a point θ, the discriminator is ψ·x, the data are 0, both descend by plain gradient steps. With the
minimax loss, D(real) = 0 and L_D = sp(0) + sp(ψθ), L_G = −sp(ψθ), so with σ the logistic function
    dL_D/dψ = θ σ(ψθ),    dL_G/dθ = −ψ σ(ψθ).
"""

import itertools
import math

import pytest
import torch
from torch import nn

from ganexp import GAN, Prior, strategies
from ganexp.losses import WGAN, Minimax

RATE_D, RATE_G = 0.3, 0.2


class Point(nn.Module):
    def __init__(self):
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(1.0))

    def forward(self, z):
        return self.theta * torch.ones_like(z)


class Slope(nn.Module):
    def __init__(self):
        super().__init__()
        self.psi = nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        return self.psi * x.squeeze(1)


def dirac_gan(loss):
    generator, discriminator = Point().double(), Slope().double()
    return GAN(
        generator,
        discriminator,
        loss,
        torch.optim.SGD(generator.parameters(), lr=RATE_G),
        torch.optim.SGD(discriminator.parameters(), lr=RATE_D),
        Prior(1, dtype=torch.float64),
        batch_size=4,
    )


def d_step(theta, psi, seen, sigma):
    """Move ψ, having seen fakes at `seen`."""
    return theta, psi - RATE_D * seen * sigma(psi * seen)


def g_step(theta, psi, sigma):
    return theta + RATE_G * psi * sigma(psi * theta), psi


def recurrence(strategy, theta, psi, d_steps, g_steps, sigma):
    if strategy in ("resample", "reuse_z", "detach", "retain_graph"):
        for _ in range(d_steps):
            theta, psi = d_step(theta, psi, theta, sigma)
        for _ in range(g_steps):
            theta, psi = g_step(theta, psi, sigma)
    elif strategy == "g_first_resample":
        for _ in range(g_steps):
            theta, psi = g_step(theta, psi, sigma)
        for _ in range(d_steps):
            theta, psi = d_step(theta, psi, theta, sigma)
    elif strategy == "g_first":
        for _ in range(g_steps):
            old = theta
            theta, psi = g_step(theta, psi, sigma)
        theta, psi = d_step(theta, psi, old, sigma)
        for _ in range(d_steps - 1):
            theta, psi = d_step(theta, psi, theta, sigma)
    elif strategy == "joint":
        for i in range(max(d_steps, g_steps)):
            new_theta = g_step(theta, psi, sigma)[0] if i < g_steps else theta
            new_psi = d_step(theta, psi, theta, sigma)[1] if i < d_steps else psi
            theta, psi = new_theta, new_psi
    return theta, psi


LOSSES = {"minimax": (Minimax, lambda s: 1 / (1 + math.exp(-s))), "wgan": (WGAN, lambda s: 1.0)}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("steps", list(itertools.product([1, 2, 3], repeat=2)))
@pytest.mark.parametrize("strategy", strategies.__all__)
def test_recurrence(strategy, steps, loss):
    d_steps, g_steps = steps
    make_loss, sigma = LOSSES[loss]
    gan, theta, psi = dirac_gan(make_loss()), 1.0, 0.7
    gan.discriminator.psi.data.fill_(psi)
    reals = itertools.repeat(torch.zeros(4, 1, dtype=torch.float64))
    for _ in range(20):
        getattr(strategies, strategy)(gan, reals, d_steps=d_steps, g_steps=g_steps)
        theta, psi = recurrence(strategy, theta, psi, d_steps, g_steps, sigma)
        assert gan.generator.theta.item() == pytest.approx(theta, rel=1e-12)
        assert gan.discriminator.psi.item() == pytest.approx(psi, rel=1e-12)


def test_simultaneous_descent_spirals_outwards_at_the_known_rate():
    """On the bilinear game each simultaneous step multiplies the distance from equilibrium by √(1 + η_D η_G)."""
    gan = dirac_gan(WGAN())
    reals = itertools.repeat(torch.zeros(4, 1, dtype=torch.float64))

    def distance():
        return math.sqrt(gan.generator.theta.item() ** 2 / RATE_G + gan.discriminator.psi.item() ** 2 / RATE_D)

    for _ in range(10):
        before = distance()
        strategies.joint(gan, reals, d_steps=1, g_steps=1)
        assert distance() / before == pytest.approx(math.sqrt(1 + RATE_D * RATE_G), rel=1e-12)
