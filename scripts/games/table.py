"""A table with a conditional column of classes and a continuous one: the flavanoids of scikit-learn's wines, by grower."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from sklearn.datasets import load_wine
from torch import Tensor, nn
from torch.nn.functional import one_hot, softplus

import ganexp


class Table:
    """G draws a value for a class; D scores the value beside its class."""

    rule = "resample"

    def __init__(self, seed: int = 0, dtype: torch.dtype = torch.float32) -> None:
        torch.manual_seed(seed)
        self.rng, self.dtype = torch.Generator().manual_seed(seed), dtype
        wines = load_wine()
        values = torch.tensor(wines.data[:, wines.feature_names.index("flavanoids")], dtype=dtype)
        self.classes, self.values = torch.tensor(wines.target), ((values - values.mean()) / values.std()).view(-1, 1)
        self.G = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)).to(dtype)
        self.D = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
        self.D.to(dtype)
        self.opt_g = torch.optim.Adam(self.G.parameters(), 1e-3, betas=(0.5, 0.9))
        self.opt_d = torch.optim.Adam(self.D.parameters(), 1e-3, betas=(0.5, 0.9))

    def batches(self) -> Iterator[Any]:
        """Yield rows in which every class is as frequent as in the table, for ever."""
        while True:
            rows = torch.randint(len(self.values), (64,), generator=self.rng)
            yield {"class": one_hot(self.classes[rows], 3).to(self.dtype), "value": self.values[rows]}

    def sample(self, batch: Any) -> Any:
        """Draw latents for the classes of a batch."""
        z = torch.randn(len(batch["class"]), 4, generator=self.rng, dtype=self.dtype)
        return {"z": z, "class": batch["class"]}

    def generate(self, given: Any) -> Any:
        """Return rows of the given classes."""
        return {"class": given["class"], "value": self.G(torch.cat([given["z"], given["class"]], 1))}

    def score(self, row: Any) -> Tensor:
        """Return D's scores."""
        return self.D(torch.cat([row["value"], row["class"]], 1))

    def d_loss(self, row: Any, fake: Any) -> Any:
        """Return D's objective."""
        return softplus(-self.score(row)).mean() + softplus(self.score(fake)).mean()

    def g_loss(self, row: Any, fake: Any) -> Any:
        """Return G's objective, which does not saturate."""
        return softplus(-self.score(fake)).mean()

    def game(self) -> ganexp.Game:
        """Return the same as a game."""
        return ganexp.Game(
            generator=self.G,
            discriminator=self.D,
            optimizer_g=self.opt_g,
            optimizer_d=self.opt_d,
            sample=self.sample,
            generate=self.generate,
            d_loss=self.d_loss,
            g_loss=self.g_loss,
        )

    def loop(self, batches: Iterator[Any], iterations: int) -> None:
        """Train by a plain loop, in which G learns from new latents, for the classes of another batch."""
        for row in itertools.islice(batches, iterations):
            self.opt_d.zero_grad()
            fake = self.generate(self.sample(row))
            self.d_loss(row, fake | {"value": fake["value"].detach()}).backward()
            self.opt_d.step()
            self.opt_g.zero_grad()
            row = next(batches)
            self.g_loss(row, self.generate(self.sample(row))).backward()
            self.opt_g.step()

    @torch.no_grad()
    def drawn(self, kind: int, count: int = 1000) -> Tensor:
        """Return generated values of one class, sorted."""
        given = {"z": torch.randn(count, 4, generator=torch.Generator().manual_seed(1), dtype=self.dtype)}
        given["class"] = one_hot(torch.full((count,), kind), 3).to(self.dtype)
        return self.generate(given)["value"].flatten().sort().values

    def distance(self) -> float:
        """Return the Wasserstein distance of generated and real values in standard deviations, as a mean over classes."""
        levels = (torch.arange(1000, dtype=self.dtype) + 0.5) / 1000
        real = (self.values[self.classes == kind].flatten().quantile(levels) for kind in range(3))
        return torch.stack([(values - self.drawn(kind)).abs().mean() for kind, values in enumerate(real)]).mean().item()
