"""Remove the interaction terms of the discretisation drift, an effect of finite step sizes (Rosca et al. 2021)."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch, Gradients
from ganexp.gan import GAN, Field
from ganexp.ranges import checked
from ganexp.strategies.simultaneous import Simultaneous
from ganexp.strategies.steps import rates


class Drift(Simultaneous):
    """Subtract the interaction terms of the discretisation drift (theorems 3.1 and 3.2) from v. Trace: `z G r f DG+`.

    Steps along v follow, to second order in η, a flow along v + (η/2) J v. The terms of J v with the other player's gradient
    are subtracted from v:

        D: v_ψ − (η_ψ/2) ∂_θ v_ψ · v_θ,    G: v_θ − c ∂_ψ v_θ · v_ψ,

    with c = η_θ/2 if both move at once, and c = (η_θ/2)(2r − 1), r = η_ψ/η_θ, if D moves first; each correction is then taken
    where its player moves, on one batch: `z G r f D+ r f G+`. For η = 0 this is `joint`, or, alternating, `detach`, except
    that penalties and augmentations that draw random numbers may then draw more. The penalty is a part of L_D.

    Args:
        rate: η of both; None is the optimisers' own learning rates, as in the paper. Adam's steps are not η times the vector,
            so give a rate with Adam.
        alternating: Whether D moves first, or both move at once.
    """

    differentiates_gradients = True
    learns_through_d_loss = True

    on_device: ClassVar = {"rate": None}

    @checked
    def __init__(self, *, rate: Annotated[float, Ge(0)] | None = None, alternating: bool = False) -> None:
        self.rate: float | Tensor | None = rate
        self.alternating = alternating

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        x, fake = next(reals), gan.generate(gan.sample())
        rate_d, rate_g = rates(gan, self.rate)
        d, g = gan.losses_of_both(x, fake)
        field = gan.field(d, g)
        if not self.alternating:
            gan.update_both(d, g, (of_d(field, rate_d / 2), of_g(field, rate_g / 2)))
            return
        gan.update_d(d, gradients=of_d(field, rate_d / 2))
        d, g = gan.losses_of_both(x, fake)
        gan.update_g(g, gradients=of_g(gan.field(d, g), rate_d - rate_g / 2))


def of_d(field: Field, c: float | Tensor) -> Gradients:
    """Return v_ψ − c ∂_θ v_ψ · v_θ."""
    v_d, v_g = field.split(field.vector)
    return field.gradients([*torch._foreach_sub(v_d, torch._foreach_mul(field.d_along_g(v_g), c)), *v_g])[0]


def of_g(field: Field, c: float | Tensor) -> Gradients:
    """Return v_θ − c ∂_ψ v_θ · v_ψ."""
    v_d, v_g = field.split(field.vector)
    return field.gradients([*v_d, *torch._foreach_sub(v_g, torch._foreach_mul(field.g_along_d(v_d), c))])[1]
