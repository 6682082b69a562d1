"""The Dirac-GAN (Mescheder et al. 2018): a point θ for a generator, a weight ψ for a discriminator, and data at 0."""

import itertools

import torch
from torch import nn

from ganexp import GAN, Prior

RATE_D, RATE_G = 0.3, 0.2
REALS = itertools.repeat(torch.zeros(4, 1, dtype=torch.float64))


class Point(nn.Module):
    def __init__(self):
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))

    def forward(self, z):
        return self.theta * torch.ones_like(z)


class Slope(nn.Module):
    def __init__(self):
        super().__init__()
        self.psi = nn.Parameter(torch.tensor(0.7, dtype=torch.float64))

    def forward(self, x):
        return self.psi * x.squeeze(1)


def dirac_gan(loss, optimizer=torch.optim.SGD):
    generator, discriminator = Point().double(), Slope().double()
    return GAN(
        generator,
        discriminator,
        loss,
        optimizer(generator.parameters(), lr=RATE_G),
        optimizer(discriminator.parameters(), lr=RATE_D),
        Prior(1, dtype=torch.float64),
        batch_size=4,
    )
