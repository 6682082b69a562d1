"""Hinge."""

from torch import Tensor
from torch.nn.functional import relu

from ganexp.losses.base import Loss


class Hinge(Loss):
    """Hinge for D, linear for G (Lim & Ye 2017; Miyato et al. 2018, equations 16 and 17)."""

    boundary = 0.0

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        return relu(1 - real).mean() + relu(1 + fake).mean()

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        return -fake.mean()
