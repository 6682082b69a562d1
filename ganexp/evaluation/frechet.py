"""The Fréchet distance between two Gaussians, on which several measures are based."""

from collections.abc import Iterable

import torch
from torch import Tensor

from ganexp.evaluation.errors import EvaluationError
from ganexp.evaluation.statistics import Moments


def frechet_distances(real: Moments, fakes: Iterable[Moments]) -> list[float]:
    """Return ‖μ − μ'‖² + Tr(Σ + Σ' − 2(ΣΣ')^½) from one Gaussian to several others (Dowson & Landau 1982), in float64.

    (ΣΣ')^½ has the same trace as (Σ^½ Σ' Σ^½)^½, which is symmetric: its eigenvalues are faster to compute than those of a
    product, are never complex, and singular covariances need no regularisation. Σ^½ is computed once for all.

    Raises:
        EvaluationError: A covariance is not finite.
    """
    root, distances = _root(_finite(real)), []
    for fake in fakes:
        covariance = _finite(fake).to(root.device)
        shift = real.mean - fake.mean.to(real.mean.device)
        shared = torch.linalg.eigvalsh(root @ covariance @ root).clamp(min=0).sqrt().sum()
        spread = real.covariance.trace() + covariance.trace() - 2 * shared
        distances.append(float(shift.square().sum() + spread))
    return distances


def _finite(moments: Moments) -> Tensor:
    if not bool(torch.isfinite(moments.scatter).all()):
        raise EvaluationError("the covariance of the features is not finite")
    return moments.covariance


def _root(covariance: Tensor) -> Tensor:
    """Return the symmetric square root of a covariance, whose negative eigenvalues can only be rounding errors."""
    values, vectors = torch.linalg.eigh(covariance)
    return (vectors * values.clamp(min=0).sqrt()) @ vectors.T
