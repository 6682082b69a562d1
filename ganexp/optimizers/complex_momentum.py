"""Heavy ball with a complex momentum."""

import math
from collections.abc import Iterable
from typing import Annotated, Any

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import nn
from torch.optim import Optimizer

from ganexp.optimizers.rates import add_scaled_, moving_groups, states
from ganexp.ranges import checked


class ComplexMomentum(Optimizer):
    """v ← β v − g, θ ← θ + η Re v, with β = |β| e^{iφ} (Lorraine et al. 2022, algorithm 1).

    An angle φ of 0 is the heavy ball, and π the heavy ball with a negative momentum. With angles in between, simultaneous
    descent contracts on bilinear games, which it does with no real momentum.

    Args:
        lr: η.
        momentum: |β|.
        angle: φ in radians; the authors take π/8 for GANs.
    """

    reads_rate_on_device = True

    @checked
    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: Annotated[float, Gt(0)] = 1e-2,
        momentum: Annotated[float, Ge(0), Lt(1)] = 0.8,
        angle: Annotated[float, Ge(0), Le(math.pi)] = math.pi / 8,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "angle": angle})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group, moving in moving_groups(self):
            real, imaginary = states(self, moving, ("real", "imaginary"))
            cosine, sine = (group["momentum"] * of(group["angle"]) for of in (math.cos, math.sin))
            turned = torch._foreach_mul(real, sine)
            torch._foreach_mul_(real, cosine)
            torch._foreach_add_(real, imaginary, alpha=-sine)
            torch._foreach_sub_(real, [p.grad for p in moving])
            torch._foreach_mul_(imaginary, cosine)
            torch._foreach_add_(imaginary, turned)
            add_scaled_(moving, real, group["lr"])
