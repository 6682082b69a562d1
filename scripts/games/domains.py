"""Domain adaptation from digits to degraded digits without labels (DANN, Ganin & Lempitsky 2015): D tells the domains apart."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import conv2d, cross_entropy, softplus

import ganexp


def degraded(x: Tensor, rng: torch.Generator) -> Tensor:
    """Return images `(N, 1, 8, 8)` smeared to the right, paler, on a brighter ground, with noise."""
    kernel = torch.tensor([[[[0.4, 0.6]]]], dtype=x.dtype)
    return 0.6 * conv2d(nn.functional.pad(x, (1, 0)), kernel) + 0.3 + 0.1 * torch.randn(x.shape, generator=rng, dtype=x.dtype)


class Domains:
    """Features and classes are one player, D the other. Half of the digits are the source, half of the others for testing."""

    rule = "joint"

    def __init__(self, seed: int = 0, dtype: torch.dtype = torch.float32) -> None:
        torch.manual_seed(seed)
        self.rng = torch.Generator().manual_seed(seed)
        images, labels = load_digits(return_X_y=True)
        order = torch.randperm(len(images), generator=self.rng)
        x, self.y = torch.tensor(images, dtype=dtype).view(-1, 1, 8, 8)[order] / 16, torch.tensor(labels)[order]
        self.source, target = x[:900], degraded(x[900:], self.rng)
        self.target, self.tested = target[:450], (target[450:], self.y[1350:])
        convolutions = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()]
        self.features = nn.Sequential(*convolutions, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 32), nn.Tanh()).to(dtype)
        self.classes = nn.Linear(32, 10, dtype=dtype)
        self.D = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)).to(dtype)
        self.opt_g = torch.optim.Adam([*self.features.parameters(), *self.classes.parameters()], 2e-3, betas=(0.5, 0.99))
        self.opt_d = torch.optim.Adam(self.D.parameters(), 2e-3, betas=(0.5, 0.99))

    def batches(self) -> Iterator[Any]:
        """Yield labelled images of the source beside images of the target, for ever."""
        while True:
            i, j = (torch.randint(len(x), (64,), generator=self.rng) for x in (self.source, self.target))
            yield {"source": self.source[i], "y": self.y[i], "target": self.target[j]}

    def generate(self, batch: Any) -> Any:
        """Return what D is shown: the features of both domains."""
        return {name: self.features(batch[name]) for name in ("source", "target")}

    def domain_loss(self, made: Any) -> Tensor:
        """Return the cross-entropy of D, which says the domain."""
        return softplus(-self.D(made["source"])).mean() + softplus(self.D(made["target"])).mean()

    def class_loss(self, batch: Any, made: Any) -> Tensor:
        """Return the cross-entropy of the classes, which only the source has."""
        return cross_entropy(self.classes(made["source"]), batch["y"])

    def game(self, weight: float = 0.3) -> ganexp.Game:
        """Return the same as a game, in which the domains count `weight`."""
        return ganexp.Game(
            generator=[self.features, self.classes],
            discriminator=self.D,
            optimizer_g=self.opt_g,
            optimizer_d=self.opt_d,
            generate=self.generate,
            d_loss=lambda batch, made: self.domain_loss(made),
            g_loss=lambda batch, made: self.class_loss(batch, made) - weight * self.domain_loss(made),
        )

    def loop(self, batches: Iterator[Any], iterations: int, weight: float = 0.3) -> None:
        """Train by a plain loop with a gradient reversal layer."""
        for batch in itertools.islice(batches, iterations):
            made = self.generate(batch)
            reversed_made = {name: Reversal.apply(features, weight) for name, features in made.items()}
            self.opt_g.zero_grad()
            self.opt_d.zero_grad()
            (self.class_loss(batch, made) + self.domain_loss(reversed_made)).backward()
            self.opt_g.step()
            self.opt_d.step()

    @torch.no_grad()
    def accuracy(self) -> float:
        """Return the share of the target's test images that are told right."""
        x, y = self.tested
        return (self.classes(self.features(x)).argmax(1) == y).double().mean().item()


class Reversal(torch.autograd.Function):
    """The identity, whose gradient is multiplied by −weight."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: float) -> Any:
        """Return x."""
        ctx.weight = weight
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Return the reversed gradient."""
        return -ctx.weight * gradient, None
