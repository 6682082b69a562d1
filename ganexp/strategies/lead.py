"""LEAD: damp the rotation by a term in the other player's last step (Askari Hemmat et al. 2023)."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch
from ganexp.gan import GAN, added
from ganexp.ranges import checked
from ganexp.strategies.memory import RuleWithMemory


class Lead(RuleWithMemory):
    """Move along v + α J_off(z − z⁻), with z both networks' weights and z⁻ those one iteration ago. Trace: `z G r f DG+`.

    J_off is v's Jacobian without its diagonal blocks. The paper's momentum, β(z − z⁻), is left to the optimisers: `sgd` has
    one. Departure: α is in units of the learning rate, so that α = 1 without momentum is optimism on a bilinear game. The
    first iteration has no z⁻. This is `joint` for α = 0. The penalty is a part of L_D.

    Args:
        alpha: α.
    """

    differentiates_gradients = True
    learns_through_d_loss = True

    on_device: ClassVar = {"alpha": None}

    @checked
    def __init__(self, *, alpha: Annotated[float, Ge(0)] = 1.0) -> None:
        super().__init__()
        self.alpha: float | Tensor = alpha

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        x, fake = next(reals), gan.generate(gan.sample())
        d, g = gan.losses_of_both(x, fake)
        field = gan.field(d, g)
        z = [p.detach() for p in field.parameters]
        of_d, of_g = field.split(torch._foreach_sub(z, self.past.before(gan, field.parameters)))
        turn = [*field.d_along_g(of_g), *field.g_along_d(of_d)]
        self.past.keep(gan, field.parameters, z)
        gan.update_both(d, g, field.gradients(added(field.vector, turn, self.alpha)))
