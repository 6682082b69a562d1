"""The two losses of the original GAN, with scores as logits of "real".

Both are written with logsigmoid, softplus(s) = −logsigmoid(−s), which is exact for every score; torch's softplus turns
linear at s = 20, where float64 would still see the difference.
"""

from torch import Tensor
from torch.nn.functional import logsigmoid

from ganexp.losses.base import Loss


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
    """The same discriminator, but G maximises log D(G(z)) (Goodfellow et al. 2014, section 3)."""

    boundary = 0.0
    log_ratio = True

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        return -logsigmoid(real).mean() - logsigmoid(-fake).mean()

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        return -logsigmoid(fake).mean()
