"""Consensus optimisation: the squared norm of the joint gradient is added to both losses (Mescheder et al. 2017)."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch
from ganexp.gan import GAN, added
from ganexp.ranges import checked
from ganexp.strategies.simultaneous import Simultaneous


class Consensus(Simultaneous):
    """Move along v + γ ∇½‖v‖² = v + γ Jᵀv, with v both networks' gradients (algorithm 2). Trace: `z G r f DG+`.

    This is `joint` for γ = 0, and so are the steps that only one network has left. The penalty is a part of L_D.

    Args:
        gamma: γ. The authors took 10 on Gaussians, with RMSprop at 1e-4, and 0.1 in their code for images.
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
        v = field.vector
        gan.update_both(d, g, field.gradients(added(v, field.transposed(v), self.gamma)))
