"""Boundary equilibrium."""

from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from ganexp.instruments.scalar import Scalar
from ganexp.losses.base import Loss
from ganexp.ranges import checked


class BEGAN(Loss):
    """Match the distributions of reconstruction errors, held in balance by k_t (Berthelot et al. 2017, section 3.4).

    Scores are energies, L1 reconstruction errors per image. L_D = mean r − k_t · mean f, L_G = mean f, and after each
    iteration k_t moves by lambda_k · (gamma · mean r − mean f) within [0, 1]. k_t is a tensor on the device.
    Departure: mean r comes from the last D update and mean f from the last G update, so that k_t is defined for every
    strategy; the paper takes both from one step.

    Args:
        gamma: Diversity ratio E[L(G(z))] / E[L(x)] at equilibrium.
        lambda_k: Gain of the proportional control.
        k_0: Where k_t begins.
    """

    accepts = frozenset({"energy"})
    low_is_real = True
    uniform_ratio = True
    on_device: ClassVar = {"gamma": None, "lambda_k": None}
    fixed: ClassVar = {"k_0": "is where k_t begins, and counts once"}
    measures: ClassVar = {
        "began/k_t": Scalar("BEGAN's control variable", "last,max", label="k_t"),
        "began/convergence": Scalar("BEGAN's convergence measure M", "last,min"),
    }
    k_t: Tensor

    @checked
    def __init__(
        self,
        *,
        gamma: Annotated[float, Gt(0), Le(1)] = 0.5,
        lambda_k: Annotated[float, Ge(0)] = 1e-3,
        k_0: Annotated[float, Ge(0), Le(1)] = 0.0,
    ) -> None:
        super().__init__()
        self.gamma = gamma
        self.lambda_k = lambda_k
        self.register_buffer("k_t", torch.tensor(k_0, dtype=torch.float64))

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        return real.mean() - self.k_t.to(fake.dtype) * fake.mean()

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        return fake.mean()

    @torch.no_grad()
    def observe(self, real: Tensor, fake: Tensor) -> None:
        self.k_t.add_(self.lambda_k * (self.gamma * real.mean() - fake.mean())).clamp_(0, 1)

    def measurements(self, real: Tensor, fake: Tensor) -> dict[str, Tensor]:
        """Return k_t and the global convergence measure M = mean r + |gamma · mean r − mean f|."""
        balance = self.gamma * real.mean() - fake.mean()
        return {"began/k_t": self.k_t, "began/convergence": real.mean() + balance.abs()}
