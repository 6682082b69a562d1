"""Adam that extrapolates from its last step."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge, Gt, Lt
from torch import nn
from torch.optim import Optimizer

from ganexp.optimizers.rates import add_scaled_, average_, average_squares_, moving_groups, states
from ganexp.ranges import checked

Decay = Annotated[float, Ge(0), Lt(1)]


class OptimisticAdam(Optimizer):
    """θ ← θ − 2η uₜ + η uₜ₋₁, with u = m̂ / (√v̂ + ε) Adam's direction and u₀ = 0 (Daskalakis et al. 2018, algorithm 1).

    Args:
        lr: η.
        betas: Decay rates of the averages m and v.
        eps: ε.
    """

    reads_rate_on_device = True
    moves_on_device: ClassVar = {"betas"}

    @checked
    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: Annotated[float, Gt(0)] = 2e-4,
        betas: tuple[Decay, Decay] = (0.5, 0.999),
        eps: Annotated[float, Gt(0)] = 1e-8,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": tuple(betas), "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group, moving in moving_groups(self):
            lr, (beta_1, beta_2) = group["lr"], group["betas"]
            gradients = [p.grad for p in moving]
            means, squares, directions, steps = states(self, moving, ("mean", "square", "direction"), ("step",))
            torch._foreach_add_(steps, 1)
            average_(means, gradients, beta_1)
            average_squares_(squares, gradients, beta_2)
            add_scaled_(moving, directions, lr)
            for mean, square, direction, step in zip(means, squares, directions, steps, strict=True):
                root = (square / (1 - beta_2**step)).sqrt_().add_(group["eps"])
                torch.div(mean / (1 - beta_1**step), root, out=direction)
            add_scaled_(moving, directions, -2 * lr)
