"""Symplectic gradient adjustment (Balduzzi et al. 2018)."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch
from ganexp.gan import GAN, added, dot
from ganexp.ranges import checked
from ganexp.strategies.simultaneous import Simultaneous

EPSILON = 0.1
"""The paper's ε, which makes the sign + where there is nothing to align."""


class Symplectic(Simultaneous):
    """Move along v + λ Aᵀv with A = ½(J − Jᵀ), the antisymmetric part of v's Jacobian (algorithm 1). Trace: `z G r f DG+`.

    If aligned, λ takes the sign of ⟨v, Jᵀv⟩⟨Aᵀv, Jᵀv⟩/n + ε for n weights, so that the adjustment attracts to stable points and
    repels from unstable ones; the authors' code divides by the number of tensors instead. This is `joint` for λ = 0, and so
    are the steps that only one network has left. The penalty is a part of L_D.

    Args:
        strength: λ.
        align: Whether λ takes this sign.
    """

    differentiates_gradients = True
    learns_through_d_loss = True

    on_device: ClassVar = {"strength": None}

    @checked
    def __init__(self, *, strength: Annotated[float, Ge(0)] = 1.0, align: bool = True) -> None:
        self.strength: float | Tensor = strength
        self.align = align

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        x, fake = next(reals), gan.generate(gan.sample())
        d, g = gan.losses_of_both(x, fake)
        field = gan.field(d, g)
        v = field.vector
        transposed, along = field.both(v)
        adjustment = torch._foreach_mul(torch._foreach_sub(transposed, along), 0.5)
        if self.align:
            alignment = dot(v, transposed) * dot(adjustment, transposed) / sum(block.numel() for block in v)
            adjustment = torch._foreach_mul(adjustment, torch.sign(alignment + EPSILON))
        gan.update_both(d, g, field.gradients(added(v, adjustment, self.strength)))
