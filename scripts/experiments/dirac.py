"""The Dirac-GAN (Mescheder et al. 2018): G and D have one weight each, so that the path of the steps has a closed form."""

import math

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from ganexp import GAN, Prior, strategies
from ganexp.losses import WGAN, Loss, NonSaturating

RATE = 0.1


class Point(nn.Module):
    """The generator: every sample is θ; the data are all 0."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))

    def forward(self, z: Tensor) -> Tensor:
        """Map `(B, 1)` to `(B, 1)`."""
        return self.theta * torch.ones_like(z)


class Slope(nn.Module):
    """The discriminator: ψ·x."""

    def __init__(self) -> None:
        super().__init__()
        self.psi = nn.Parameter(torch.tensor(0.0, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, 1)` to scores `(B,)`."""
        return self.psi * x.squeeze(1)


def distances(strategy: str, loss: Loss, iterations: int) -> list[float]:
    """Return the distance of (θ, ψ) from equilibrium, (0, 0), after each iteration of plain gradient descent at `RATE`."""
    generator, discriminator = Point(), Slope()
    optimizer_g, optimizer_d = (torch.optim.SGD(network.parameters(), lr=RATE) for network in (generator, discriminator))
    gan = GAN(generator, discriminator, loss, optimizer_g, optimizer_d, Prior(1, dtype=torch.float64), batch_size=1)
    reals = iter(lambda: torch.zeros(1, 1, dtype=torch.float64), None)
    found = []
    for _ in range(iterations):
        getattr(strategies, strategy)(gan, reals, d_steps=1, g_steps=1)
        found.append(math.hypot(generator.theta.item(), discriminator.psi.item()))
    return found


def in_closed_form(iterations: int) -> list[float]:
    """Return the same for simultaneous steps of the bilinear game (`loss=wgan`): each multiplies the distance by √(1 + η²)."""
    return [(1 + RATE**2) ** (n / 2) for n in range(1, iterations + 1)]


def spirals(iterations: int = 600) -> tuple[dict[str, dict[str, list[float]]], Figure]:
    """Follow the strategies for two losses, and draw them."""
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    found: dict[str, dict[str, list[float]]] = {}
    for axes, loss in zip(figure.subplots(1, 2), (WGAN(), NonSaturating()), strict=True):
        name = type(loss).__name__
        found[name] = {}
        for strategy, style in {"g_first": "-", "joint": ":", "detach": "-", "resample": ":"}.items():
            found[name][strategy] = distances(strategy, loss, iterations)
            color = "tab:orange" if strategy in ("g_first", "joint") else "tab:blue"
            width = 4 if style == ":" else 1.5
            axes.plot(found[name][strategy], color=color, linestyle=style, linewidth=width, label=strategy)
        if name == "WGAN":
            axes.plot(in_closed_form(iterations), color="k", linestyle="--", linewidth=0.8, label="√(1 + η²)ⁿ")
        axes.set(title=name, xlabel="iterations", ylabel="distance from equilibrium", yscale="log")
        axes.legend()
    return found, figure
