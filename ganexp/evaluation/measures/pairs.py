"""The base of measures of pairs, which compare each sample with its target."""

from torch import Tensor

from ganexp.evaluation.base import Measure
from ganexp.evaluation.features import Features
from ganexp.evaluation.statistics import PairMeans
from ganexp.facts import Facts, Misfit


class PairMeasure(Measure[PairMeans]):
    """The mean over samples of a figure of each sample and its target. It has one key.

    Images are compared as they would be saved, in 8 bits per channel. There is no real set.
    """

    keeps = PairMeans
    looks_at_reals = False
    least_side = 1
    """The fewest pixels along a side of an image."""

    def check(self, run: Facts) -> None:
        super().check(run)
        if not (run.dataset and run.dataset.source_shape and run.dataset.paired):
            raise Misfit(
                "compares samples with what should be made of their sources, and these data are no pairs", dataset="pairs"
            )
        if min(run.shape[1:]) < self.least_side:
            side = self.least_side
            raise Misfit(f"needs images of {side}×{side} pixels or more, and these have {run.shape[1]}×{run.shape[2]}")

    def least(self, features: Features, of: str) -> int:
        return 1

    def statistic(self, features: object, modes: object) -> PairMeans:
        return PairMeans(self.figures, f"{type(self).__qualname__} {self.settings}")

    def figures(self, samples: Tensor, targets: Tensor) -> Tensor:
        """Return the figure of each pair, `(B,)`; images are `(B, C, H, W)` in [-1, 1]."""
        raise NotImplementedError

    def __call__(self, real: PairMeans, fake: PairMeans) -> dict[str, float]:
        (key,) = self.keys
        return {key: fake.mean}
