"""The contraction of an update rule near an equilibrium, measured on the smallest game with given eigenvalues."""

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.losses import WGAN
from ganexp.prior import Prior

ITERATIONS = 100
"""The number of iterations, of which the second half is measured; each half is a multiple of lookahead's period."""


class _Points(nn.Module):
    """G(z) = (θ, 0): the last number marks a sample as generated."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.ones(size, dtype=torch.float64))

    def forward(self, z: Tensor) -> Tensor:
        return torch.cat([self.theta.expand(len(z), -1), torch.zeros_like(z[:, :1])], 1)


class _Quadratic(nn.Module):
    """D(x, s) = Σ bψx − ax²/2 − saψ²/2, with s = 1 for real samples."""

    def __init__(self, eigenvalues: Tensor) -> None:
        super().__init__()
        self.psi = nn.Parameter(torch.ones(len(eigenvalues), dtype=torch.float64))
        self.a, self.b = eigenvalues.real, eigenvalues.imag

    def forward(self, sample: Tensor) -> Tensor:
        x, real = sample[:, :-1], sample[:, -1:]
        return (self.b * self.psi * x - self.a / 2 * (x.square() + real * self.psi.square())).sum(1)


def contraction(strategy: Callable[..., None], eigenvalues: Sequence[complex], rate: float) -> float:
    """Return the factor by which an iteration of a rule multiplies the distance from equilibrium, in the long run.

    For each eigenvalue a + ib the game has two parameters, ψ of D and θ of G, with aψ²/2 + bψθ in L_D and aθ²/2 − bψθ in L_G,
    so that its Jacobian is normal and has the eigenvalues a ± ib. Both players use plain gradient descent, at one rate.

    Args:
        strategy: The rule; one that has a state must be a new instance.
        eigenvalues: One of each conjugate pair.
        rate: The learning rate of both.

    Returns:
        The factor; infinite where float64 overflows.
    """
    size = len(eigenvalues)
    generator, discriminator = _Points(size), _Quadratic(torch.tensor(eigenvalues, dtype=torch.complex128))
    gan = GAN(
        generator,
        discriminator,
        WGAN(),
        torch.optim.SGD(generator.parameters(), lr=rate),
        torch.optim.SGD(discriminator.parameters(), lr=rate),
        Prior(1, dtype=torch.float64),
        batch_size=2,
    )
    reals = itertools.repeat(Batch(torch.tensor([[0.0] * size + [1.0]] * 2, dtype=torch.float64)))
    distances = []
    for _ in range(2):
        for _ in range(ITERATIONS // 2):
            strategy(gan, reals, d_steps=1, g_steps=1)
        distances.append(math.hypot(*generator.theta.tolist(), *discriminator.psi.tolist()))
    half, whole = distances
    if not math.isfinite(whole):
        return math.inf
    return (whole / half) ** (2 / ITERATIONS) if half else 0.0
