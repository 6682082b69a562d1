"""Jacobian regularisation: each network also descends the squared norm of the other's gradient (Nie & Patel 2020)."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch
from ganexp.gan import GAN, added
from ganexp.ranges import checked
from ganexp.strategies.simultaneous import Simultaneous


class Jare(Simultaneous):
    """Move along v + γ J_offᵀv, J_off the off-diagonal blocks of v's Jacobian (algorithm 1). Trace: `z G r f DG+`.

    D's objective gets γ/2 ‖∇_θ L_G‖² and G's gets γ/2 ‖∇_ψ L_D‖². `consensus` also penalises each network's own
    gradient, by the diagonal blocks. This is `joint` for γ = 0. The penalty is a part of L_D.

    Args:
        gamma: γ.
    """

    differentiates_gradients = True
    learns_through_d_loss = True

    on_device: ClassVar = {"gamma": None}

    @checked
    def __init__(self, *, gamma: Annotated[float, Ge(0)] = 0.1) -> None:
        self.gamma: float | Tensor = gamma

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        x, fake = next(reals), gan.generate(gan.sample())
        d, g = gan.losses_of_both(x, fake)
        field = gan.field(d, g)
        v_d, v_g = field.split(field.vector)
        across = [*field.of_g_by_d(v_g), *field.of_d_by_g(v_d)]
        gan.update_both(d, g, field.gradients(added(field.vector, across, self.gamma)))
