"""Energy with a margin."""

from typing import Annotated

from annotated_types import Gt
from torch import Tensor
from torch.nn.functional import relu

from ganexp.losses.base import Loss
from ganexp.ranges import checked


class EBGAN(Loss):
    """Low energy for reals, at least `margin` for fakes (Zhao et al. 2016, equations 1 and 2).

    Scores are energies, reconstruction errors per image. L_D = mean r + mean relu(margin − f), L_G = mean f. Departure: no
    pulling-away term, which compares what D's encoder makes of the fakes, and a loss sees scores alone.

    Args:
        margin: The energy from which on D leaves a fake alone, in the units of D's scores: the paper's 10 and more are for
            errors of another scale than `BEGANDiscriminator`'s mean absolute one, which is below 2 for images in [-1, 1]
            that are reconstructed as such.
    """

    accepts = frozenset({"energy"})

    @checked
    def __init__(self, *, margin: Annotated[float, Gt(0)] = 1.0) -> None:
        super().__init__()
        self.margin = margin

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        return real.mean() + relu(self.margin - fake).mean()

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        return fake.mean()
