"""The Fréchet distance."""

from typing import ClassVar

from ganexp.evaluation.base import Measure, low
from ganexp.evaluation.features import Features
from ganexp.evaluation.frechet import frechet_distances
from ganexp.evaluation.statistics import Moments


class FID(Measure[Moments]):
    """Fréchet distance ‖μ − μ'‖² + Tr(Σ + Σ' − 2(ΣΣ')^½) between Gaussians fitted to features (Heusel et al. 2017, eq. 6).

    It is computed in float64 from all samples. It is biased: fewer samples give a higher figure, so figures compare only at the
    same number of samples.
    """

    keys: ClassVar = {"eval/fid": low("Fréchet distance, in squared units of the features")}
    keeps = Moments
    rank = 1
    default_of = "images"

    def least(self, features: Features, of: str) -> int:
        return features.size + 1  # the covariance of fewer is singular

    def __call__(self, real: Moments, fake: Moments) -> dict[str, float]:
        (distance,) = frechet_distances(real, [fake])
        return {"eval/fid": distance}
