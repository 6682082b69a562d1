"""Follow-the-ridge: D's step is corrected so that D stays at its best response while G moves (Wang, Zhang & Ba 2020)."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor

from ganexp.batch import Batch
from ganexp.gan import GAN, Vector, added, dot
from ganexp.ranges import checked
from ganexp.strategies.competitive import conjugate_gradients
from ganexp.strategies.simultaneous import Simultaneous
from ganexp.strategies.steps import rates


class FollowTheRidge(Simultaneous):
    """D moves along v_ψ − (η_θ/η_ψ) H⁻¹ ∂_θ v_ψ · v_θ with H = ∂_ψ v_ψ, and G along v_θ (algorithm 1). Trace: `z G r f DG+`.

    The correction keeps v_ψ as it is while θ moves. Conjugate gradients solve the system with H + λ; they end early where
    H + λ curves downwards, and steps beyond the tolerance change nothing. η_θ and η_ψ are the optimisers' own learning rates;
    only their ratio counts. The penalty is a part of L_D. Departures: with a loss that is not zero-sum, G descends its own
    objective; the correction is not preconditioned.

    Args:
        steps: Maximum number of conjugate gradient steps; each takes a product with H.
        damping: λ.
        tolerance: The residual, relative to the right-hand side, at which they end.
    """

    differentiates_gradients = True
    learns_through_d_loss = True

    on_device: ClassVar = {"damping": None, "tolerance": None}

    @checked
    def __init__(
        self,
        *,
        steps: Annotated[int, Ge(1)] = 5,
        damping: Annotated[float, Ge(0)] = 1.0,
        tolerance: Annotated[float, Gt(0), Lt(1)] = 1e-6,
    ) -> None:
        self.steps = steps
        self.damping: float | Tensor = damping
        self.tolerance: float | Tensor = tolerance

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        x, fake = next(reals), gan.generate(gan.sample())
        d, g = gan.losses_of_both(x, fake)
        field = gan.field(d, g)
        v_d, v_g = field.split(field.vector)

        def damped(p: Vector) -> Vector:  # (H + λ) p
            return added(field.of_d_by_d(p), p, self.damping)

        b = field.d_along_g(v_g)
        ridge = conjugate_gradients(
            damped, [*map(torch.zeros_like, b)], b, steps=self.steps, enough=self.tolerance**2 * dot(b, b)
        )
        rate_d, rate_g = rates(gan, None)
        follows = torch._foreach_sub(v_d, torch._foreach_mul(ridge, rate_g / rate_d))
        gan.update_both(d, g, field.gradients([*follows, *v_g]))
