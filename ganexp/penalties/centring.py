"""A penalty that keeps the mean of D's scores near 0."""

from typing import Annotated

from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch, Discriminator
from ganexp.facts import Facts, Misfit
from ganexp.penalties.base import Penalty, Seen
from ganexp.ranges import checked


class Centring(Penalty):
    """weight · m², where m is the mean of D's scores of real and of generated samples (after Lin et al. 2025, AFM).

    It is meant for losses that only compare scores, such as `rpgan`. D runs no further pass.

    Args:
        weight: 0.01 in AFM.
    """

    reads_scores = True

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 0.01) -> None:
        self.weight = weight

    def check(self, run: Facts) -> None:
        super().check(run)
        if run.scores not in ("logit", ""):
            raise Misfit(f"holds scores near 0, and this discriminator returns {run.scores} scores", penalty=[])

    def compared(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen) -> Tensor:
        """Return m², a scalar, of all processes' scores."""
        own = 0.5 * (seen.real_scores.mean() + seen.fake_scores.mean())
        return (self.processes.total(own) / self.processes.count).square()
