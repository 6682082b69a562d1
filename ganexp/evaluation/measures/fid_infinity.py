"""The Fréchet distance at infinitely many samples."""

from statistics import linear_regression
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from ganexp.evaluation.base import Measure, low
from ganexp.evaluation.features import Features
from ganexp.evaluation.frechet import frechet_distances
from ganexp.evaluation.statistics import Moments, MomentsInParts
from ganexp.ranges import checked


class FIDInfinity(Measure[Moments | MomentsInParts]):
    """Fréchet distance extrapolated to infinitely many generated samples (Chong & Forsyth 2020, section 4).

    FID of N samples is biased by a term proportional to 1/N, whose factor depends on the generator. So it is measured at
    several N, and the straight line through FID over 1/N is extrapolated to 1/N = 0. The bias from the number of real samples
    remains.

    Departures: the sets are 1/`sizes`, 2/`sizes`, …, all of the samples, each a subset of the next, where the paper takes 15
    random subsets of 5,000 to 50,000; latents are the usual independent ones, where the paper draws Sobol sequences.

    Args:
        sizes: At how many N the distance is measured.
    """

    keys: ClassVar = {"eval/fid_infinity": low("Fréchet distance at infinitely many samples, in squared units of the features")}
    keeps = MomentsInParts

    @checked
    def __init__(self, *, sizes: Annotated[int, Ge(2), Le(100)] = 10) -> None:
        self.sizes = sizes

    def least(self, features: Features, of: str) -> int:
        regular = features.size + 1  # the covariance of a smaller part is singular, and its bias not proportional to 1/N
        return regular * self.sizes if of == "generated" else regular

    def statistic(self, features: Features, modes: object) -> MomentsInParts:
        return MomentsInParts(self.sizes)

    def statistic_of_reals(self, features: Features, modes: object) -> Moments:
        return Moments()

    def __call__(self, real: Moments | MomentsInParts, fake: Moments | MomentsInParts) -> dict[str, float]:
        """Return the distance at 1/N = 0, in squared units of the features; it can be negative."""
        assert isinstance(real, Moments)
        assert isinstance(fake, MomentsInParts)
        growing = fake.growing()
        distances = frechet_distances(real, growing)
        return {"eval/fid_infinity": linear_regression([1 / one.n for one in growing], distances).intercept}
