"""Heavy ball with a momentum that may be negative, which torch's SGD refuses."""

from collections.abc import Iterable
from typing import Annotated, Any

import torch
from annotated_types import Gt, Lt
from torch import nn
from torch.optim import Optimizer

from ganexp.optimizers.rates import add_scaled_
from ganexp.ranges import checked


class NegativeMomentum(Optimizer):
    """v ← β v − η g, θ ← θ + v, with β in (−1, 1) (Polyak 1964; β < 0 for games, Gidel et al. 2019, equation 5).

    Args:
        parameters: What is optimised.
        lr: η.
        momentum: β. About −½ lets alternating descent converge on bilinear games, where β ≥ 0 does not.
    """

    reads_rate_on_device = True

    @checked
    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: Annotated[float, Gt(0)] = 1e-2,
        momentum: Annotated[float, Gt(-1), Lt(1)] = -0.5,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            moving = [p for p in group["params"] if p.grad is not None]
            if not moving:  # all of the group is frozen, and torch's multi-tensor functions take no empty list
                continue
            for p in moving:
                if not self.state[p]:
                    self.state[p]["velocity"] = torch.zeros_like(p)
            velocities = [self.state[p]["velocity"] for p in moving]
            torch._foreach_mul_(velocities, group["momentum"])
            add_scaled_(velocities, [p.grad for p in moving], -group["lr"])
            torch._foreach_add_(moving, velocities)
