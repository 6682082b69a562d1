"""The Dirac-GAN (Mescheder et al. 2018): G and D have one weight each, so that the path of the steps has a closed form."""

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from ganexp import strategies
from ganexp.losses import WGAN, Loss, NonSaturating
from playing.games import Game, Settings, path

RATE = 0.1
START = (1.0, 0.0)


def distances(strategy: str, loss: Callable[[], Loss], iterations: int) -> list[float]:
    """Return the distance of (θ, ψ) from equilibrium, (0, 0), after each iteration of plain gradient descent at `RATE`."""
    game = Game("dirac", loss, spread=0.0)
    after = path(game, getattr(strategies, strategy), Settings(RATE), iterations, START)[1:]
    return [float(distance) for distance in np.hypot(*after.T)]


def in_closed_form(iterations: int) -> list[float]:
    """Return the same for simultaneous steps of the bilinear game (`loss=wgan`): each multiplies the distance by √(1 + η²)."""
    return [(1 + RATE**2) ** (n / 2) for n in range(1, iterations + 1)]


def rows(iterations: int = 600, every: int = 100) -> list[dict[str, object]]:
    """Return the distances after every so many iterations, for both losses and all strategies."""
    return [
        {"loss": loss.__name__, "strategy": strategy, "rate": RATE, "start": START, "iteration": n, "distance": along[n - 1]}
        for loss in (WGAN, NonSaturating)
        for strategy in ("g_first", "joint", "detach", "resample")
        for along in (distances(strategy, loss, iterations),)
        for n in range(every, iterations + 1, every)
    ]


def spirals(iterations: int = 600) -> tuple[dict[str, dict[str, list[float]]], Figure]:
    """Follow the strategies for two losses, and draw them."""
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    found: dict[str, dict[str, list[float]]] = {}
    for axes, loss in zip(figure.subplots(1, 2), (WGAN, NonSaturating), strict=True):
        name = loss.__name__
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
