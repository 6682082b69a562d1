"""Orthogonal steps for matrices, Adam's for everything else."""

import math
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn
from torch.optim import Optimizer

from ganexp.optimizers.rates import add_scaled_, average_, average_squares_, moving_groups, states
from ganexp.ranges import checked

Decay = Annotated[float, Ge(0), Lt(1)]
COEFFICIENTS = 3.4445, -4.7750, 2.0315
ITERATIONS = 5


class Muon(Optimizer):
    """θ ← (1 − ηλ)θ − 0.2 η √max(rows, columns) · O, O near the orthogonal factor of the momentum (Jordan et al. 2024).

    O is `orthogonalised` of Nesterov's momentum. Parameters of two or more dimensions move so, with all dimensions but the
    first flattened, if that gives more than one row and column. Adam moves the others: biases, gains, a last layer with one
    output. With the factor 0.2 √max, a step is as large as one of Adam's (Liu et al. 2025), so that both have the same rate.

    For matrices it is `torch.optim.Muon` with `adjust_lr_fn="match_rms_adamw"`, which accepts only matrices and reads its rate
    on the host. Departure: first layers and embeddings are treated as matrices.

    Args:
        lr: η.
        momentum: Of the matrices' momentum.
        weight_decay: λ, decoupled, of matrices alone.
        betas, eps: Adam's, for the other parameters.
    """

    reads_rate_on_device = True
    moves_on_device: ClassVar = {"betas"}

    @checked
    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: Annotated[float, Gt(0)] = 5e-4,
        momentum: Decay = 0.95,
        weight_decay: Annotated[float, Ge(0)] = 0.0,
        betas: tuple[Decay, Decay] = (0.5, 0.999),
        eps: Annotated[float, Gt(0)] = 1e-8,
    ) -> None:
        moved = list(parameters)
        groups = [
            {"params": [p for p in moved if is_matrix(p) == matrices], "matrices": matrices} for matrices in (True, False)
        ]
        settings = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "betas": tuple(betas), "eps": eps}
        super().__init__([group for group in groups if group["params"]], settings)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group, moving in moving_groups(self):
            gradients = [p.grad for p in moving if p.grad is not None]
            directions = (self._orthogonal if group["matrices"] else self._adam)(group, moving, gradients)
            if group["matrices"] and group["weight_decay"]:
                torch._foreach_mul_(moving, 1 - group["lr"] * group["weight_decay"])
            add_scaled_(moving, directions, -group["lr"])

    def _orthogonal(self, group: dict[str, Any], moving: list[nn.Parameter], gradients: list[Tensor]) -> list[Tensor]:
        (means,) = states(self, moving, ("mean",))
        torch._foreach_lerp_(means, gradients, 1 - group["momentum"])
        ahead = torch._foreach_lerp(gradients, means, group["momentum"])
        return [
            orthogonalised(momentum.flatten(1)).to(momentum.dtype).reshape(momentum.shape)
            * (0.2 * math.sqrt(max(momentum.flatten(1).shape)))
            for momentum in ahead
        ]

    def _adam(self, group: dict[str, Any], moving: list[nn.Parameter], gradients: list[Tensor]) -> list[Tensor]:
        beta_1, beta_2 = group["betas"]
        means, squares, steps = states(self, moving, ("mean", "square"), ("step",))
        torch._foreach_add_(steps, 1)
        average_(means, gradients, beta_1)
        average_squares_(squares, gradients, beta_2)
        return [
            (mean / (1 - beta_1**step)) / (square / (1 - beta_2**step)).sqrt_().add_(group["eps"])
            for mean, square, step in zip(means, squares, steps, strict=True)
        ]


def is_matrix(parameter: Tensor) -> bool:
    """Return whether a parameter is a matrix of more than one row and column, with all dimensions but the first flattened."""
    return parameter.dim() > 1 and min(len(parameter), parameter[0].numel()) > 1


def orthogonalised(matrix: Tensor) -> Tensor:
    """Return U S Vᵀ for a matrix with the singular vectors U and V, where S lies between 0.68 and 1.21.

    Only a singular value below 0.0015 of the Frobenius norm has a lower S, its share of the norm times 450 to 485. These are
    five Newton-Schulz iterations of a polynomial that is steep at 0, in bfloat16 except for float64.
    """
    a, b, c = COEFFICIENTS
    wide = matrix if len(matrix) <= matrix.shape[1] else matrix.T
    x = wide if matrix.dtype == torch.float64 else wide.bfloat16()
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x if len(matrix) <= matrix.shape[1] else x.T
