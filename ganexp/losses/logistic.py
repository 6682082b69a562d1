"""The two losses of the original GAN, with scores as logits of "real".

Both are written with logsigmoid, softplus(s) = −logsigmoid(−s), which is exact for every score; torch's softplus turns
linear at s = 20, where float64 would still see the difference.
"""

from typing import Annotated

from annotated_types import Ge, Lt
from torch import Tensor
from torch.nn.functional import logsigmoid

from ganexp.losses.base import Loss
from ganexp.ranges import checked


class Minimax(Loss):
    """The zero-sum game (Goodfellow et al. 2014, equation 1): L_G is minus the part of L_D that G can change."""

    uniform_ratio = True
    zero_sum = True
    boundary = 0.0
    log_ratio = True

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        return -logsigmoid(real).mean() - logsigmoid(-fake).mean()

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        return logsigmoid(-fake).mean()


class NonSaturating(Loss):
    """The same discriminator, but G maximises log D(G(z)) (Goodfellow et al. 2014, section 3).

    Args:
        smoothing: By how much D's target for real samples is below 1: one-sided label smoothing (Salimans et al. 2016, section
            3.4, where it is 0.1). The best D's score is then no log-ratio of densities.
    """

    boundary = 0.0

    @checked
    def __init__(self, *, smoothing: Annotated[float, Ge(0), Lt(0.5)] = 0.0) -> None:
        super().__init__()
        self.smoothing = smoothing
        self.log_ratio = not smoothing

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        loss = -logsigmoid(real).mean() - logsigmoid(-fake).mean()
        return loss + self.smoothing * real.mean() if self.smoothing else loss  # as logsigmoid(s) - logsigmoid(-s) = s

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        return -logsigmoid(fake).mean()
