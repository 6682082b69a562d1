"""Adam that averages its weights instead of lowering its rate."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn
from torch.optim import Optimizer

from ganexp.optimizers.rates import average_squares_, moving_groups
from ganexp.ranges import checked


class ScheduleFree(Optimizer):
    """Schedule-free AdamW (Defazio et al. 2024, algorithm 1).

    With u = g/(√v̂ + ε) + λy, where v̂ is Adam's average of g² and g the gradient at y = (1 − β₁)z + β₁x,

        z ← z − ηu,    x ← (1 − c)x + cz,    c = η²/Σ η²,

    with the sum over all steps so far, and the largest η so far in place of each. The parameters of the network are y; z is
    part of the optimiser's state, and `averaged` returns x, which is to be evaluated. This is `schedulefree.AdamWScheduleFree`
    with r = 0 and its default power of η, whose counts are numbers in parameter groups, which neither checkpoints of ganexp nor
    CUDA graphs include. Departure: here each parameter has counts of its own, in tensors, and so begins its average when it is
    first trained.

    Args:
        lr: η, constant in the paper.
        betas: β₁, between z and x, and Adam's β₂.
        eps: ε.
        weight_decay: λ, of weights at y.
        warm_up: Steps in which η rises linearly.
    """

    reads_rate_on_device = True
    averages_weights = True
    fixed: ClassVar = {"betas": "belongs to the average over the whole run"}

    @checked
    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: Annotated[float, Gt(0)] = 1e-3,
        betas: tuple[Annotated[float, Gt(0), Lt(1)], Annotated[float, Ge(0), Lt(1)]] = (0.9, 0.999),
        eps: Annotated[float, Gt(0)] = 1e-8,
        weight_decay: Annotated[float, Ge(0)] = 0.0,
        warm_up: Annotated[int, Ge(0)] = 0,
    ) -> None:
        settings = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "warm_up": warm_up}
        super().__init__(parameters, settings)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient, from y to the next y."""
        for group, moving in moving_groups(self):
            beta_1, beta_2 = group["betas"]
            dtype, gradients = moving[0].dtype, [p.grad for p in moving if p.grad is not None]
            for p in moving:
                if not self.state[p]:
                    counts = {name: torch.zeros((), dtype=torch.float64, device=p.device) for name in ("step", "rate", "sum")}
                    self.state[p].update(z=p.detach().clone(), square=torch.zeros_like(p), **counts)
            zs, squares, steps, rates, sums = (
                [self.state[p][name] for p in moving] for name in ("z", "square", "step", "rate", "sum")
            )
            torch._foreach_add_(steps, 1)
            count = torch.stack(steps)
            rate = (count / max(1, group["warm_up"])).clamp(max=1) * group["lr"]
            largest = torch.maximum(torch.stack(rates), rate)
            total = torch.stack(sums) + largest.square()
            share = torch.where(total > 0, largest.square() / total, 0)
            torch._foreach_copy_(rates, list(largest))
            torch._foreach_copy_(sums, list(total))

            average_squares_(squares, gradients, beta_2)
            roots = torch._foreach_div(squares, list((1 - beta_2**count).to(dtype)))
            torch._foreach_sqrt_(roots)
            torch._foreach_add_(roots, group["eps"])
            directions = torch._foreach_div(gradients, roots)
            if group["weight_decay"]:
                torch._foreach_add_(directions, moving, alpha=group["weight_decay"])
            torch._foreach_lerp_(moving, zs, list(share.to(dtype)))
            torch._foreach_add_(moving, torch._foreach_mul(directions, list((rate * (beta_1 * (1 - share) - 1)).to(dtype))))
            torch._foreach_sub_(zs, torch._foreach_mul(directions, list(rate.to(dtype))))

    @torch.no_grad()
    def averaged(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """Return x of some parameters, and copies of those that have never been moved."""
        beta_1 = {p: group["betas"][0] for group in self.param_groups for p in group["params"]}
        return [p.lerp(self.state[p]["z"], 1 - 1 / beta_1[p]) if self.state.get(p) else p.detach().clone() for p in parameters]
