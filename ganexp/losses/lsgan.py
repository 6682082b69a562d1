"""Least squares."""

from torch import Tensor

from ganexp.losses.base import Loss


class LSGAN(Loss):
    """Least squares with targets a = 0, b = c = 1 (Mao et al. 2017, equation 9)."""

    boundary = 0.5
    fits_sigmoid = True

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        return 0.5 * (real - 1).square().mean() + 0.5 * fake.square().mean()

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        return 0.5 * (fake - 1).square().mean()
