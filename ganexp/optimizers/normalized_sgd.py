"""Steps of a fixed length, whatever the length of the gradient."""

from collections.abc import Iterable
from typing import Annotated, Any

import torch
from annotated_types import Gt
from torch import nn
from torch.optim import Optimizer

from ganexp.optimizers.rates import add_scaled_
from ganexp.ranges import checked


class NormalizedSGD(Optimizer):
    """θ ← θ − η g / ‖g‖, with g the gradient of the whole network (Jelassi et al. 2022, nSGDA).

    As with Adam, the ratio of the two players' step lengths is constant. A gradient of zero moves nothing.

    Args:
        lr: η, the length of a step.
    """

    reads_rate_on_device = True

    @checked
    def __init__(self, parameters: Iterable[nn.Parameter], *, lr: Annotated[float, Gt(0)] = 1e-2) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        moving = [[p for p in group["params"] if p.grad is not None] for group in self.param_groups]
        norm = torch.nn.utils.get_total_norm([p.grad for own in moving for p in own])
        scale = torch.where(norm > 0, 1 / norm, 0)
        for group, own in zip(self.param_groups, moving, strict=True):
            if own:  # torch's multi-tensor functions take no empty list
                add_scaled_(own, torch._foreach_mul([p.grad for p in own], scale), -group["lr"])
