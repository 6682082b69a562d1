"""Extragradient: take a step ahead, return, and step by the gradients at the point ahead."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.ranges import checked
from ganexp.strategies.simultaneous import Simultaneous
from ganexp.strategies.steps import looking_ahead, stretch


class Extragradient(Simultaneous):
    """Korpelevich 1976; for GANs Gidel et al. 2019, algorithm 3. Trace: `z G r f (DG+) z G r f DG+`.

    As in the paper's ExtraAdam, an optimiser with state moves its state at both steps. The paper's Adam has a β₁ of 0.5, which
    did better than 0, the default here, in docs/bench.md. Steps left over for one network alone are as in `joint`.

    Args:
        ahead: The length of the step ahead, in steps of the optimisers (Hsieh et al. 2020: explore aggressively, ahead > 1, and
            update conservatively).
        same_batch: Whether the step proper looks at the batch of the step ahead (Mishchenko et al. 2020), or draws its own, as
            Gidel et al. do. Departure: G's gradient does not pass through a latent step that both share.
    """

    looks_ahead = True
    moves_weights = True
    on_device: ClassVar = {"ahead": None}

    @checked
    def __init__(self, *, ahead: Annotated[float, Ge(0)] = 1.0, same_batch: bool = False) -> None:
        self.ahead: float | Tensor = ahead
        self.same_batch = same_batch
        self.needs = ("latents",) if same_batch else ()

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        both = [*gan.g_parameters, *gan.d_parameters]
        x, z = next(reals), gan.sample()
        z = z.detach() if self.same_batch else z
        with looking_ahead(both) as here:
            gan.move(*gan.gradients(*gan.losses(x, gan.generate(z))))
            stretch(both, here, self.ahead)
            if not self.same_batch:
                x, z = next(reals), gan.sample()
            d, g = gan.losses(x, gan.generate(z))
            gradients = gan.gradients(d, g)
        gan.update_both(d, g, gradients)
