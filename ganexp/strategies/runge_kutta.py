"""Runge-Kutta steps along the flow of the joint gradient (Qin et al. 2020, ODE-GAN)."""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch, Gradients
from ganexp.gan import GAN
from ganexp.ranges import checked
from ganexp.strategies.simultaneous import Simultaneous
from ganexp.strategies.steps import looking_ahead, rates

AHEAD: dict[int, tuple[float, ...]] = {2: (1,), 4: (1 / 2, 1 / 2, 1)}
"""How far each further stage looks ahead along v of the stage before, by order: Heun's method, and Runge and Kutta's."""
SHARES: dict[int, tuple[float, ...]] = {2: (1 / 2, 1 / 2), 4: (1 / 6, 1 / 3, 1 / 3, 1 / 6)}
"""What share of the step each stage has."""


class RungeKutta(Simultaneous):
    """Move along a mean of v over stages, each of them a look ahead (algorithm 1). Trace: `z G r f G r f DG+`, order 2.

    All stages look at one batch. With a regulariser, D also descends λ‖∇_θ L_G‖², by its gradient at the first stage.
    Departures: the vector along which the paper takes a plain step is given to the optimisers; weights at which a stage looks
    are not clipped; G's gradient does not pass through a latent step.

    Args:
        order: 2 has two stages, 4 has four.
        rate: η, by which stages look ahead; None is the optimisers' own learning rates, as in the paper. Adam's steps are not
            η times the vector, so give a rate with Adam.
        regulariser: λ; above 0 it takes a gradient of a gradient.
    """

    needs = ("latents",)
    looks_ahead = True

    on_device: ClassVar = {"rate": None}

    @checked
    def __init__(
        self,
        *,
        order: Literal[2, 4] = 2,
        rate: Annotated[float, Ge(0)] | None = None,
        regulariser: Annotated[float, Ge(0)] = 0.0,
    ) -> None:
        self.order = order
        self.rate: float | Tensor | None = rate
        self.regulariser = regulariser
        self.differentiates_gradients = self.learns_through_d_loss = regulariser > 0

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        x, z = next(reals), gan.sample().detach()
        d_parameters, g_parameters = gan.d_parameters, gan.g_parameters
        rate_d, rate_g = rates(gan, self.rate)
        if self.regulariser:
            d, g = gan.losses_of_both(x, gan.generate(z))
            field = gan.field(d, g)
            v_g = field.split(field.vector)[1]
            stages = [field.gradients(field.vector)]
            brake = torch._foreach_mul(field.of_g_by_d(v_g), 2 * self.regulariser)
            brakes = [field.gradients([*brake, *map(torch.zeros_like, v_g)])]
        else:
            d, g = gan.losses(x, gan.generate(z))
            stages, brakes = [gan.gradients(d, g)], []
        with looking_ahead([*d_parameters, *g_parameters]) as here:
            for part in AHEAD[self.order]:
                of_d, of_g = map(gan.processes.sum, stages[-1])
                go(d_parameters, here[: len(d_parameters)], of_d, part * rate_d)
                go(g_parameters, here[len(d_parameters) :], of_g, part * rate_g)
                stages.append(gan.gradients(*gan.losses(x, gan.generate(z))))
        of_d, of_g = (weighted(own, (*SHARES[self.order], 1)) for own in zip(*stages, *brakes, strict=True))
        gan.update_both(d, g, (of_d, of_g))


@torch.no_grad()
def go(parameters: Sequence[Tensor], here: Sequence[Tensor], gradients: Gradients, length: float | Tensor) -> None:
    """Put parameters where a plain step along gradients leads from here."""
    for p, start, v in zip(parameters, here, gradients, strict=True):
        p.copy_(start if v is None else start - length * v)


def weighted(terms: Sequence[Gradients], shares: Sequence[float]) -> Gradients:
    """Return the sum of gradients, each times its share; there may be more shares than gradients."""
    return tuple(
        None if of_one[0] is None else sum(share * v for share, v in zip(shares, of_one, strict=False) if v is not None)
        for of_one in zip(*terms, strict=True)
    )
