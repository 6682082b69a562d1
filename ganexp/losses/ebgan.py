"""Energy with a margin."""

from typing import Annotated, ClassVar

from annotated_types import Ge, Gt
from torch import Tensor
from torch.nn.functional import normalize, relu

from ganexp.batch import further_of, scores_of
from ganexp.losses.base import Loss
from ganexp.ranges import checked


class EBGAN(Loss):
    """Low energy for reals, at least `margin` for fakes (Zhao et al. 2016, equations 1 and 2).

    Scores are energies, reconstruction errors per image. L_D = mean r + mean relu(margin − f), L_G = mean f, and with
    `pulling_away` the term that keeps fakes apart (section 2.4): `pulling_away` times the mean, over all pairs of fakes, of the
    squared cosine between the codes that D's encoder gives them. D then has to return its code behind each score.

    Args:
        margin: The energy from which on D leaves a fake alone, in the units of D's scores. The paper's values of 10 and more
            are for errors on another scale than `BEGANDiscriminator`'s mean absolute error, which is below 2 where images and
            reconstructions lie in [-1, 1].
        pulling_away: Weight of that term in L_G; the paper's EBGAN-PT has 0.1, its plain EBGAN none.
    """

    accepts = frozenset({"energy"})
    low_is_real = True
    on_device: ClassVar = {"margin": None}
    remedy: ClassVar = {"pulling_away": 0}

    @checked
    def __init__(self, *, margin: Annotated[float, Gt(0)] = 1.0, pulling_away: Annotated[float, Ge(0)] = 0.0) -> None:
        super().__init__()
        self.margin = margin
        self.pulling_away = pulling_away
        self.reads = "code" if pulling_away else ""

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        return scores_of(real).mean() + relu(self.margin - scores_of(fake)).mean()

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        if not self.pulling_away:
            return fake.mean()
        return scores_of(fake).mean() + self.pulling_away * alike(further_of(fake))


def alike(codes: Tensor) -> Tensor:
    """Return the mean squared cosine between any two of the codes, `(B, k)`, a scalar; 0 for a single one."""
    directions = normalize(codes, dim=1)
    cosines = (directions @ directions.mT).triu(1)
    return cosines.square().sum() / max(1, len(codes) * (len(codes) - 1) // 2)
