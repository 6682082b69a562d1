"""Wasserstein."""

from torch import Tensor

from ganexp.losses.base import Loss


class WGAN(Loss):
    """The dual form of the Wasserstein-1 distance (Arjovsky et al. 2017, equation 2).

    D must be kept Lipschitz by a penalty: `WeightClipping` in that paper, `GradientPenalty` in WGAN-GP.
    """

    uniform_ratio = True
    zero_sum = True

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        return fake.mean() - real.mean()

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        return -fake.mean()
