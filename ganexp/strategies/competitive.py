"""Competitive gradient descent: move to the equilibrium of a bilinear model of the game (Schäfer & Anandkumar 2019)."""

from collections.abc import Callable, Iterator
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn

from ganexp.batch import Batch, Gradients, Objective
from ganexp.gan import GAN, Vector, dot
from ganexp.losses import Loss
from ganexp.ranges import checked
from ganexp.strategies.memory import RuleWithMemory
from ganexp.strategies.steps import rates


class Competitive(RuleWithMemory):
    """Competitive gradient descent, zero-sum (algorithm 1, with f = L_G and −f in L_D). Trace: `z G r f DG+`.

    Each player expects the other's step: with the mixed second derivatives D_θψ and D_ψθ of f, the vectors that the
    optimisers get solve

        θ: x = ∇_θ L_G − η_ψ D_θψ y,    ψ: y = ∇_ψ L_D + η_θ D_ψθ x.

    Substituting y into the first equation leaves (1 + M) x = ∇_θ L_G − η_ψ D_θψ ∇_ψ L_D with M = η_θ η_ψ D_θψ D_ψθ, which
    conjugate gradients solve, starting where they ended in the previous iteration. Neither host nor device waits: all steps are
    computed, and those beyond the tolerance change nothing.

    Where G's loss counts w times (`balance.weight`), L_G contains w·f. θ answers by D_θψ of w·f and ψ by D_ψθ of f, so that M
    has the factor w and stays symmetric.

    This is `joint` for η = 0, and so are the steps that only one network has left. The penalty, a term of L_D alone, takes
    part in ∇_ψ L_D; its dependence on G through its samples is not in D_θψ. Likewise terms of L_G that do not look at D take
    part in ∇_θ L_G, and leave D_θψ and D_ψθ as they are. Departure: the rates of the two players may differ.

    Args:
        rate: η of both; None is the optimisers' own learning rates, as in the paper, whose steps are η times the vector. Adam's
            steps are not, so give a rate with Adam.
        steps: Maximum number of conjugate gradient steps; each takes two products, with D_θψ and D_ψθ.
        tolerance: The residual, relative to the right-hand side, at which they end.
    """

    needs = ("zero_sum",)
    differentiates_gradients = True
    learns_through_d_loss = True

    on_device: ClassVar = {"rate": None, "tolerance": None}

    @checked
    def __init__(
        self,
        *,
        rate: Annotated[float, Ge(0)] | None = None,
        steps: Annotated[int, Ge(1)] = 10,
        tolerance: Annotated[float, Gt(0), Lt(1)] = 1e-6,
    ) -> None:
        super().__init__()
        self.rate: float | Tensor | None = rate
        self.steps = steps
        self.tolerance: float | Tensor = tolerance

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        x, fake = next(reals), gan.generate(gan.sample())
        weight = gan.zero_sum_weight()
        if gan.loss is not None:
            self.refuse(gan.discriminator, gan.loss, x)
        d, g = gan.losses(x, fake)
        gan.update_both(d, g, self.anticipated(gan, d, g, weight))

    def anticipated(self, gan: GAN, d: Objective, g: Objective, weight: float | Tensor) -> tuple[Gradients, Gradients]:
        """Return y and x, which replace the gradients of D and G; `weight` is w.

        With b the right-hand side, the correction e = x − b solves (1 + M) e = −M b, so that nothing is added where M is zero.
        """
        field = gan.field(d, g)
        v_d, v_g = field.split(field.vector)
        rate_d, rate_g = rates(gan, self.rate)

        def expected(x: Vector) -> Vector:  # η_θ D_ψθ x, times w since it is taken from L_G
            return torch._foreach_mul(field.of_g_by_d(x), rate_g)

        def answer(y: Vector) -> Vector:  # −η_ψ D_θψ y, without w since it is taken from L_D
            return torch._foreach_mul(field.of_d_by_g(y), rate_d)

        def minus_m(x: Vector) -> Vector:
            return answer(expected(x))

        b = torch._foreach_add(v_g, torch._foreach_mul(answer(v_d), weight))
        before = self.past.of(gan, gan.g_parameters)
        reached = [k for k, v in zip(before, field.gradients(field.vector)[1], strict=True) if v is not None]
        e: Vector = [torch.zeros_like(v) if k is None else k for k, v in zip(reached, v_g, strict=True)]
        e = conjugate_gradients(
            lambda p: torch._foreach_sub(p, minus_m(p)),
            e,
            torch._foreach_sub(minus_m(torch._foreach_add(b, e)), e),
            steps=self.steps,
            enough=self.tolerance**2 * dot(b, b),
        )
        self.past.keep(gan, gan.g_parameters, field.gradients([*v_d, *e])[1])
        x = torch._foreach_add(b, e)
        if isinstance(weight, Tensor) or weight != 1:  # D_ψθ from L_D itself, by one backward pass more, for w may be 0
            y = torch._foreach_sub(v_d, torch._foreach_mul(field.d_along_g(x), rate_g))
        else:
            y = torch._foreach_add(v_d, expected(x))
        return field.gradients([*y, *x])

    def refuse(self, discriminator: nn.Module, loss: Loss, x: Batch) -> None:
        """Refuse a loss that is not zero-sum, for which M would not be symmetric."""
        if loss.zero_sum:
            return
        needs = f"competitive needs a zero-sum loss, in which G maximises what D minimises, but {type(loss).__name__} is not"
        if type(loss).zero_sum:
            raise ValueError(
                f"{needs} with topk around the strategy: leave topk out, or choose another strategy, such as consensus"
            )
        raise ValueError(f"{needs}: choose loss=minimax, loss=wgan or loss=wgan_gp, or another strategy, such as consensus")


def conjugate_gradients(
    product: Callable[[Vector], Vector], x: Vector, residual: Vector, *, steps: int, enough: Tensor
) -> Vector:
    """Solve a symmetric positive definite system from a start x, whose residual is given (Hestenes & Stiefel 1952).

    All `steps` steps are always computed; once the squared norm of the residual has fallen to `enough`, or a direction has no
    positive curvature, they have length zero.
    """
    direction, size = residual, dot(residual, residual)
    going = size > enough
    for _ in range(steps):
        along = product(direction)
        curvature = dot(direction, along)
        going = going & (size > enough) & ~(curvature <= 0)
        length = torch.where(going, size / curvature, 0)
        x = torch._foreach_add(x, torch._foreach_mul(direction, length))
        residual = torch._foreach_sub(residual, torch._foreach_mul(along, length))
        before, size = size, dot(residual, residual)
        direction = torch._foreach_add(residual, torch._foreach_mul(direction, torch.where(going, size / before, 0)))
    return x
