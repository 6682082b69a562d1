"""Hamiltonian gradient descent: descend the squared norm of the joint gradient alone (Abernethy et al. 2021)."""

from collections.abc import Iterator

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.simultaneous import Simultaneous


class Hamiltonian(Simultaneous):
    """Move along Jᵀv = ∇½‖v‖², with v both networks' gradients: Hamiltonian gradient descent. Trace: `z G r f DG+`.

    Every stationary point attracts, even a player's maximum or a saddle: a lesson rather than a method. `consensus` adds v to
    it. The penalty is a part of L_D.
    """

    differentiates_gradients = True
    learns_through_d_loss = True

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        x, fake = next(reals), gan.generate(gan.sample())
        d, g = gan.losses_of_both(x, fake)
        field = gan.field(d, g)
        gan.update_both(d, g, field.gradients(field.transposed(field.vector)))
