"""A penalty that keeps the mean of D's scores near 0."""

from typing import Annotated

from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch, Discriminator
from ganexp.facts import Facts, Misfit
from ganexp.penalties.base import Penalty, Seen, scored
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

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor:
        return self._of(scored(discriminator, x), scored(discriminator, fake))

    def compared(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen) -> Tensor:
        return self._of(seen.real_scores, seen.fake_scores)

    def _of(self, real: Tensor, fake: Tensor) -> Tensor:
        """Return m², a scalar, of all processes' scores."""
        own = 0.5 * (real.mean() + fake.mean())
        return (self.processes.total(own) / self.processes.count).square()
