"""Least squares with as many linear equations as constraints: G is the coefficients, D the multipliers of the Lagrangian."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

import ganexp


class Constrained:
    """The minimum over w of |Aw − b|² / n under Cw = d. A has fewer rows than columns, so constraints alone fix the rest."""

    rule = "joint"

    def __init__(self, seed: int = 0, dtype: torch.dtype = torch.float64) -> None:
        rng = torch.Generator().manual_seed(0)  # one problem for all seeds, which draw where w starts
        self.A, self.C = (torch.linalg.qr(torch.randn(8, n, generator=rng, dtype=dtype))[0].T for n in (6, 4))
        self.b, self.d = (torch.randn(n, generator=rng, dtype=dtype) for n in (6, 4))
        self.w, self.multipliers = nn.Linear(8, 1, bias=False, dtype=dtype), nn.Linear(4, 1, bias=False, dtype=dtype)
        nn.init.normal_(self.w.weight, generator=torch.Generator().manual_seed(seed))
        nn.init.zeros_(self.multipliers.weight)
        self.opt_w = torch.optim.SGD(self.w.parameters(), 0.2)
        self.opt_m = torch.optim.SGD(self.multipliers.parameters(), 0.2)

    def batches(self) -> Iterator[Any]:
        """Yield nothing that anything depends on: every iteration sees all of the data."""
        return itertools.repeat(None)

    def lagrangian(self, w: Tensor) -> Tensor:
        """Return what w descends and the multipliers ascend."""
        return (self.A @ w - self.b).square().mean() + self.multipliers(self.C @ w - self.d).sum()

    def game(self) -> ganexp.Game:
        """Return the same as a game."""
        return ganexp.Game(
            generator=self.w,
            discriminator=self.multipliers,
            optimizer_g=self.opt_w,
            optimizer_d=self.opt_m,
            sample=lambda batch: batch,  # with this, generate may be called twice in an iteration
            generate=lambda batch: self.w.weight.view(-1),
            d_loss=lambda batch, w: -self.lagrangian(w),
            g_loss=lambda batch, w: self.lagrangian(w),
            zero_sum=True,
        )

    def loop(self, batches: Iterator[Any], iterations: int) -> None:
        """Train by a plain loop: both gradients, then both steps."""
        for _ in range(iterations):
            value = self.lagrangian(self.w.weight.view(-1))
            w_gradient, m_gradient = torch.autograd.grad(value, [self.w.weight, self.multipliers.weight])
            self.w.weight.grad, self.multipliers.weight.grad = w_gradient, -m_gradient
            self.opt_w.step()
            self.opt_m.step()

    def solution(self) -> tuple[Tensor, Tensor]:
        """Return w and the multipliers by the linear equations of Karush, Kuhn and Tucker."""
        n = len(self.A)
        top = torch.cat([2 / n * self.A.T @ self.A, self.C.T], 1)
        whole = torch.cat([top, torch.cat([self.C, torch.zeros(len(self.C), len(self.C), dtype=self.C.dtype)], 1)])
        both = torch.linalg.solve(whole, torch.cat([2 / n * self.A.T @ self.b, self.d]))
        return both[:8], both[8:]

    def distance(self) -> float:
        """Return the distance of w and the multipliers from the solution."""
        now = torch.cat([self.w.weight.detach().view(-1), self.multipliers.weight.detach().view(-1)])
        return (now - torch.cat(self.solution())).norm().item()
