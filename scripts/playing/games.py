"""Three games with one weight each, θ of G and ψ of D, as real GANs; the solution of each is (0, 0).

G shifts its latents, D is a line through the origin, ψx (Mescheder et al. 2018, definition 2.1, with the sign of ψ turned, so
that high scores mean real). Latents and data are fixed sets of equally likely points: no step is random.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ganexp import GAN, Batch, Prior
from ganexp.losses import WGAN, Loss, Minimax
from ganexp.optimizers import NegativeMomentum

Strategy = Callable[..., None]
POINTS = 32
"""How many equally likely points stand for a Gaussian."""


@dataclass(frozen=True)
class Game:
    """A game: its loss, and how far data and fakes spread around their means; at 0 they are single points."""

    name: str
    loss: Callable[[], Loss]
    spread: float

    @property
    def points(self) -> list[float]:
        """The data, and the fakes at θ = 0."""
        return [0.0] if self.spread == 0 else [self.spread * point for point in normal_points(POINTS)]


GAMES = (
    Game("bilinear", WGAN, spread=0.0),
    Game("dirac", Minimax, spread=0.0),
    Game("gaussians", Minimax, spread=0.5),
)


@dataclass(frozen=True)
class Settings:
    """What the sliders set, except the strategy's own coefficient: η, β, and the updates of D and of G per iteration."""

    rate: float = 0.1
    momentum: float = 0.0
    d_steps: int = 1
    g_steps: int = 1


def normal_points(n: int) -> list[float]:
    """Return the middles of `n` equally likely parts of a normal distribution, scaled to variance 1."""
    points = np.array([NormalDist().inv_cdf((i + 0.5) / n) for i in range(n)])
    return [float(point) for point in points / points.std()]


class Shift(nn.Module):
    """The generator: θ + z."""

    def __init__(self, theta: float) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(theta, dtype=torch.float64))

    def forward(self, z: Tensor) -> Tensor:
        """Map `(B, 1)` to `(B, 1)`."""
        return self.theta + z


class Slope(nn.Module):
    """The discriminator: ψ·x."""

    def __init__(self, psi: float) -> None:
        super().__init__()
        self.psi = nn.Parameter(torch.tensor(psi, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, 1)` to scores `(B,)`."""
        return self.psi * x.squeeze(1)


class Points(Prior):
    """Latents that are the same points in every batch."""

    def __init__(self, points: Tensor) -> None:
        super().__init__(1, dtype=points.dtype)
        self.points = points

    def sample(self, n: int) -> Batch:
        """Return the points, `(n, 1)`."""
        return Batch(self.points)


def gan_of(game: Game, settings: Settings, start: tuple[float, float]) -> GAN:
    """Return a game as a GAN in float64, at (θ, ψ) = `start`."""
    points = torch.tensor(game.points, dtype=torch.float64)[:, None]
    generator, discriminator = Shift(start[0]), Slope(start[1])
    optimizer_g, optimizer_d = (
        NegativeMomentum(network.parameters(), lr=settings.rate, momentum=settings.momentum)
        for network in (generator, discriminator)
    )
    prior = Points(points)
    return GAN(generator, discriminator, game.loss(), optimizer_g, optimizer_d, prior, batch_size=len(points))


def path(
    game: Game, strategy: Strategy, settings: Settings, iterations: int, start: tuple[float, float] = (1.0, 0.5)
) -> NDArray[np.float64]:
    """Return (θ, ψ) before the first and after each iteration of a strategy, `(iterations + 1, 2)`."""
    gan = gan_of(game, settings, start)
    reals = itertools.repeat(Batch(torch.tensor(game.points, dtype=torch.float64)[:, None]))
    found = [start]
    for _ in range(iterations):
        strategy(gan, reals, d_steps=settings.d_steps, g_steps=settings.g_steps)
        found.append((gan.g_parameters[0].item(), gan.d_parameters[0].item()))
    return np.array(found)
