"""Clipped weights."""

from typing import Annotated

import torch
from annotated_types import Gt
from torch import Tensor, nn

from ganexp.penalties.base import Penalty
from ganexp.ranges import checked


class WeightClipping(Penalty):
    """Clip every trainable weight of D to [-bound, bound] after each D step (Arjovsky et al. 2017, algorithm 1)."""

    demands = frozenset({"small weights"})

    @checked
    def __init__(self, *, bound: Annotated[float, Gt(0)] = 0.01) -> None:
        self.bound = bound

    @torch.no_grad()
    def constrain(self, discriminator: nn.Module) -> None:
        weights: list[Tensor] = [p for p in discriminator.parameters() if p.requires_grad]
        torch._foreach_clamp_min_(weights, -self.bound)
        torch._foreach_clamp_max_(weights, self.bound)
