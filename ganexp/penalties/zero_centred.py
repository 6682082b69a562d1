"""Penalties that flatten D where the samples are (Mescheder et al. 2018, section 4.1)."""

from torch import Tensor

from ganexp.batch import Batch
from ganexp.penalties.base import Discriminator
from ganexp.penalties.gradient_norms import refuse_unpaired, score_gradients
from ganexp.penalties.lazy import Lazy


class R1(Lazy):
    """γ/2 · mean ‖∇D(x)‖² at real samples (equation 9); γ is `weight`."""

    needs_logits = True
    demands = frozenset({"gradient norm 0"})
    differentiates_gradients = True

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor:
        return _half_square(discriminator, x)


class R2(Lazy):
    """γ/2 · mean ‖∇D(G(z))‖² at generated samples (equation 10); γ is `weight`."""

    needs_logits = True
    demands = frozenset({"gradient norm 0"})
    differentiates_gradients = True

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor:
        return _half_square(discriminator, fake)


class R1R2(Lazy):
    """R1 and R2 with one γ, as in R3GAN (Huang et al. 2024)."""

    needs_logits = True
    demands = frozenset({"gradient norm 0"})
    differentiates_gradients = True

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor:
        refuse_unpaired("r1r2", x, fake)
        return _half_square(discriminator, x) + _half_square(discriminator, fake)


def _half_square(discriminator: Discriminator, at: Batch) -> Tensor:
    return 0.5 * score_gradients(discriminator, at).square().sum(1)
