"""The Fréchet distance between Gaussians: of whole sets, at infinitely many samples, and within classes."""

from collections.abc import Sequence
from statistics import linear_regression
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Le
from torch import Tensor

from ganexp.evaluation.base import Measure, low
from ganexp.evaluation.features import Features
from ganexp.evaluation.statistics import ClassMoments, Moments, MomentsInParts
from ganexp.facts import UserError
from ganexp.ranges import checked


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


class FIDInfinity(Measure[Moments | MomentsInParts]):
    """Fréchet distance extrapolated to infinitely many generated samples (Chong & Forsyth 2020, section 4).

    FID of N samples is biased by a term proportional to 1/N, whose factor depends on the generator. So it is measured at
    several N, and the straight line through FID over 1/N is extrapolated to 1/N = 0. The bias from the number of real samples
    remains.

    Departures: the sets are 1/`sizes`, 2/`sizes`, …, all of the samples, each a subset of the next, where the paper takes 15
    random subsets of 5,000 to 50,000; latents are the usual independent ones, where the paper draws Sobol sequences.

    Args:
        sizes: The number of values of N.
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
        return {"eval/fid_infinity": linear_regression([1 / moments.n for moments in growing], distances).intercept}


class IntraFID(Measure[ClassMoments]):
    """Intra-class FID: the Fréchet distance within each class, averaged over the classes (Miyato & Koyama 2018, section 4).

    Unlike FID it shows a generator that confuses classes, or makes one image of each. Classes have far fewer samples than the
    set, so it is higher than FID, and compares only at the same number of samples. Covariances may be singular, as they are in
    publications. The paper takes 5,000 samples of each class; here classes are as frequent as in the data.
    """

    keys: ClassVar = {
        "eval/intra_fid": low("Fréchet distance within classes, mean over them, in squared units of the features")
    }
    keeps = ClassMoments
    looks_at_labels = True

    def __call__(self, real: ClassMoments, fake: ClassMoments) -> dict[str, float]:
        """Return the mean distance, in squared units of the features; refuse classes of fewer than two samples."""
        distances = []
        for label, moments in sorted(real.of.items()):
            generated = fake.of.get(label)
            if generated is None or min(moments.n, generated.n) < 2:
                few, of = (moments.n, "real") if moments.n < 2 else (generated.n if generated else 0, "generated")
                remedy = "raise evaluation.samples" if of == "generated" else "leave intra_fid out of measure"
                raise UserError(f"intra_fid: class {label} has {few} {of} samples, and needs at least 2: {remedy}")
            distances += frechet_distances(moments, [generated])
        return {"eval/intra_fid": sum(distances) / len(distances)}


def frechet_distances(real: Moments, fakes: Sequence[Moments]) -> list[float]:
    """Return ‖μ − μ'‖² + Tr(Σ + Σ' − 2(ΣΣ')^½) from one Gaussian to several others (Dowson & Landau 1982), in float64.

    With Σ = RRᵀ and Σ' = SSᵀ, the trace of (ΣΣ')^½ is the sum of the singular values of RᵀS. Roots of the eigenvalues
    of ΣΣ', or of RᵀΣ'R, are the same numbers, but those that should be 0 come out as the root of a rounding error, and in many
    dimensions add up: to -7e-4 for a set of 100 samples in 2048 dimensions against itself. R is computed once for all.
    """
    device = fakes[0].mean.device  # real statistics from the cache lie on the host
    of_real, mean, distances = _finite(real).to(device), real.mean.to(device), []
    root = _root(of_real)
    for fake in fakes:
        covariance, shift = _finite(fake), mean - fake.mean
        shared = torch.linalg.svdvals(root.T @ _root(covariance)).sum()
        spread = of_real.trace() + covariance.trace() - 2 * shared
        distances.append(float(shift.square().sum() + spread.clamp(min=0)))  # below 0 by rounding alone
    return distances


def _finite(moments: Moments) -> Tensor:
    if not bool(torch.isfinite(moments.scatter).all()):
        raise UserError("the covariance of the features is not finite")
    return moments.covariance


def _root(covariance: Tensor) -> Tensor:
    """Return R, `(F, rank)`, with RRᵀ the covariance; eigenvalues that rounding cannot be told from count as 0."""
    values, vectors = torch.linalg.eigh(covariance)
    known = values > values[-1] * len(values) * torch.finfo(values.dtype).eps
    return vectors[:, known] * values[known].sqrt()
