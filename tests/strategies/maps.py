"""Discriminators of 36 places, and which strategies are exact on them."""

from dataclasses import replace

from torch import nn

from ganexp.strategies import by_name
from tests.tiny import CASES

UNIFORM = [name for name, case in CASES.items() if case.loss().uniform_ratio]
EQUAL = [(one.equals, name) for name, one in by_name().items() if one.equals]
"""Strategies that are one algorithm."""


class Places(nn.Module):
    """36 places of a point, each with a score of its own."""

    def __init__(self, heads=()):
        super().__init__()
        self.layers, self.heads = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 36)), heads

    def forward(self, x):
        return self.layers(x).view(-1, 1, 6, 6)


class Energies(Places):
    output = "energy"

    def forward(self, x):
        return super().forward(x).abs()


def on_places(loss, heads=(), **changes):
    """Return the case of a loss with a discriminator of 36 places."""
    kind = Energies if getattr(CASES[loss].discriminator(), "output", "logit") == "energy" else Places
    return replace(CASES[loss], discriminator=lambda: kind(heads), **changes)


def exact(strategy, loss):
    """Return whether a strategy is exact for a loss on 36 places."""
    return strategy != "one_stage" or loss in UNIFORM
