"""A tokenizer in the manner of RAE (Zheng et al. 2025): a decoder of frozen codes, D beside it before D's loss counts."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import l1_loss, relu

import ganexp


class Tokenizer:
    """E, the frozen encoder, projects a digit onto six principal components; G decodes them.

    G learns without D for 200 iterations, D learns beside it for 200 more, and then its loss counts.
    """

    alone, beside = 200, 200

    def __init__(self, seed: int = 0, dtype: torch.dtype = torch.float32) -> None:
        torch.manual_seed(seed)
        self.rng = torch.Generator().manual_seed(seed)
        self.images = torch.tensor(load_digits().data, dtype=dtype)[torch.randperm(1797, generator=self.rng)] / 8 - 1
        self.E = nn.Linear(64, 6, dtype=dtype).requires_grad_(False)
        components = torch.linalg.svd(self.images[:1500] - self.images[:1500].mean(0), full_matrices=False)[2][:6]
        self.E.weight.copy_(components)
        self.E.bias.copy_(-components @ self.images[:1500].mean(0))
        self.G = nn.Sequential(nn.Linear(6, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64), nn.Tanh())
        self.D = nn.Sequential(nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.Linear(128, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
        self.G.to(dtype), self.D.to(dtype)
        self.opt_g = torch.optim.Adam(self.G.parameters(), 1e-3, betas=(0.5, 0.9))
        self.opt_d = torch.optim.Adam(self.D.parameters(), 1e-3, betas=(0.5, 0.9))

    def batches(self) -> Iterator[Any]:
        """Yield images, for ever."""
        while True:
            yield self.images[torch.randint(1500, (64,), generator=self.rng)]

    def generate(self, x: Tensor) -> Any:
        """Return reconstructions."""
        return self.G(self.E(x))

    def d_loss(self, x: Any, fake: Any) -> Any:
        """Return D's objective, the hinge."""
        return relu(1 - self.D(x)).mean() + relu(1 + self.D(fake)).mean()

    def reconstruction(self, x: Tensor, fake: Any) -> Tensor:
        """Return G's objective without D."""
        return l1_loss(fake, x)

    def g_loss(self, x: Any, fake: Any) -> Any:
        """Return G's objective once D counts."""
        return self.reconstruction(x, fake) - 0.02 * self.D(fake).mean()

    def game(self) -> ganexp.Game:
        """Return the same as a game."""
        return ganexp.Game(
            generator=[self.G, self.E],
            discriminator=self.D,
            optimizer_g=self.opt_g,
            optimizer_d=self.opt_d,
            generate=self.generate,
            d_loss=self.d_loss,
            g_loss=self.g_loss,
            terms=self.reconstruction,
        )

    def loop(self, batches: Iterator[Any], iterations: int) -> None:
        """Train by a plain loop."""
        for iteration, x in enumerate(itertools.islice(batches, iterations)):
            fake = self.generate(x)
            if iteration >= self.alone:
                self.opt_d.zero_grad()
                self.d_loss(x, fake.detach()).backward()
                self.opt_d.step()
            self.opt_g.zero_grad()
            counts = iteration >= self.alone + self.beside
            (self.g_loss if counts else self.reconstruction)(x, fake).backward()
            self.opt_g.step()

    @torch.no_grad()
    def error(self) -> float:
        """Return the mean absolute error of reconstructions of digits that G does not learn from."""
        return l1_loss(self.generate(self.images[1500:]), self.images[1500:]).item()
