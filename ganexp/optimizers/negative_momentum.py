"""Heavy ball with a momentum that may be negative, which torch's SGD refuses."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from ganexp.optimizers.bounds import check_lr


class NegativeMomentum(Optimizer):
    """v ← β v − η g, θ ← θ + v, with β in (−1, 1) (Polyak 1964; β < 0 for games, Gidel et al. 2019, equation 5).

    Args:
        parameters: What is optimised.
        lr: η.
        momentum: β. About −½ lets alternating descent converge on bilinear games, where β ≥ 0 does not.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], *, lr: float = 1e-2, momentum: float = -0.5) -> None:
        check_lr(lr)
        if not -1 < momentum < 1:
            raise ValueError(f"momentum must lie in (-1, 1), not {momentum}")
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            moving = [p for p in group["params"] if p.grad is not None]
            for p in moving:
                if not self.state[p]:
                    self.state[p]["velocity"] = torch.zeros_like(p)
            velocities = [self.state[p]["velocity"] for p in moving]
            torch._foreach_mul_(velocities, group["momentum"])
            torch._foreach_add_(velocities, [p.grad for p in moving], alpha=-group["lr"])
            torch._foreach_add_(moving, velocities)
