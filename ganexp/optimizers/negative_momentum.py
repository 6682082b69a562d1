"""Heavy ball with a momentum that may be negative, which torch's SGD refuses."""

from collections.abc import Iterable
from typing import Annotated, Any

import torch
from annotated_types import Gt, Lt
from torch import nn
from torch.optim import Optimizer

from ganexp.optimizers.rates import add_scaled_, moving_groups, states
from ganexp.ranges import checked


class NegativeMomentum(Optimizer):
    """v ← β v − η g, θ ← θ + v, with β in (−1, 1) (Polyak 1964; β < 0 for games, Gidel et al. 2019, equation 5).

    Args:
        lr: η.
        momentum: β. With about −½, alternating descent converges on bilinear games, which it does not for β ≥ 0.
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
        for group, moving in moving_groups(self):
            (velocities,) = states(self, moving, ("velocity",))
            torch._foreach_mul_(velocities, group["momentum"])
            add_scaled_(velocities, [p.grad for p in moving], -group["lr"])
            torch._foreach_add_(moving, velocities)
