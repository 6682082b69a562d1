"""What an update rule does near an equilibrium, measured on the smallest game with a given eigenvalue."""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.losses import WGAN
from ganexp.prior import Prior

ITERATIONS = 96


class _Point(nn.Module):
    """G(z) = (θ, 0): the second number says that a sample is generated."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, z: Tensor) -> Tensor:
        return torch.stack([self.theta.expand(len(z)), torch.zeros_like(z[:, 0])], 1)


class _Quadratic(nn.Module):
    """D(x, s) = bψx − ax²/2 − saψ²/2, with s = 1 for real samples."""

    def __init__(self, eigenvalue: complex) -> None:
        super().__init__()
        self.psi = nn.Parameter(torch.ones((), dtype=torch.float64))
        self.a, self.b = eigenvalue.real, eigenvalue.imag

    def forward(self, sample: Tensor) -> Tensor:
        x, real = sample.unbind(1)
        return self.b * self.psi * x - self.a / 2 * (x.square() + real * self.psi.square())


def contraction(strategy: Callable[..., None], eigenvalue: complex, rate: float) -> float:
    """Return by what factor an iteration of a rule multiplies the distance from equilibrium, in the long run.

    The game has two numbers, ψ of D and θ of G, with L_D = aψ²/2 + bψθ and L_G = aθ²/2 − bψθ, so that its Jacobian has the
    eigenvalues a ± ib. Both players descend plainly, at one rate. Of a game with more numbers, whose Jacobian is normal, the
    rule contracts as it does on the worst of its eigenvalues.

    Args:
        strategy: The rule; one with a state is to be a new one.
        eigenvalue: a + ib.
        rate: The learning rate of both.

    Raises:
        ValueError: The rule is not for this game: not for its loss, say.
    """
    generator, discriminator = _Point(), _Quadratic(eigenvalue)
    gan = GAN(
        generator,
        discriminator,
        WGAN(),
        torch.optim.SGD(generator.parameters(), lr=rate),
        torch.optim.SGD(discriminator.parameters(), lr=rate),
        Prior(1, dtype=torch.float64),
        batch_size=2,
    )
    reals = itertools.repeat(Batch(torch.tensor([[0.0, 1.0]] * 2, dtype=torch.float64)))
    distances = []
    for _ in range(2):
        for _ in range(ITERATIONS // 2):
            strategy(gan, reals, d_steps=1, g_steps=1)
        distances.append(float(torch.hypot(generator.theta.detach(), discriminator.psi.detach())))
    half, whole = distances
    return (whole / half) ** (2 / ITERATIONS) if half else 0.0
