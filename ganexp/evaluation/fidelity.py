"""The measures that torch-fidelity computes, from features that are given."""

from typing import ClassVar

import torch

from ganexp.evaluation.comparison import Comparison, high, low, refuse_without_neighbours, rows_of
from ganexp.evaluation.features import Features
from ganexp.evaluation.library import needed
from ganexp.evaluation.parts import EvaluationError, KeptFeatures, KeptLogits, Moments, Part

LIBRARY = "torch_fidelity"
NEIGHBOURS = 3
"""k of precision and recall (Kynkäänniemi et al. 2019, section 3)."""
SUBSET, SUBSETS, SPLITS = 1000, 10, 10
"""Of KID and of the Inception score, in samples, subsets and parts."""


class FID(Comparison):
    """Fréchet distance ‖μ − μ'‖² + Tr(Σ + Σ' − 2(ΣΣ')^½) between Gaussians fitted to features (Heusel et al. 2017, eq. 6).

    In float64, of all samples. It is biased: with fewer samples it is higher, so figures compare at the same number only.
    """

    keys: ClassVar = {"eval/fid": low("Fréchet distance, in squared units of the features")}
    part = Moments
    library = LIBRARY

    def refuse(self, features: Features, n: int, of: str) -> None:
        """Refuse sets whose covariance is singular."""
        if n <= features.size:
            raise EvaluationError(f"it needs more than {features.size} {of} samples, as many as there are features, not {n}")

    def __call__(self, real: Part, fake: Part) -> dict[str, float]:
        """Return the distance, in squared units of the features."""
        assert isinstance(real, Moments)
        assert isinstance(fake, Moments)
        if not all(bool(torch.isfinite(one.scatter).all()) for one in (real, fake)):
            raise EvaluationError("fid: the covariance of the features is not finite")
        statistics = [{"mu": one.mean.cpu().numpy(), "sigma": one.covariance.cpu().numpy()} for one in (real, fake)]
        return _figure("fid", "fid_statistics_to_metric", "frechet_inception_distance", *statistics, verbose=False)


class KID(Comparison):
    """Squared maximum mean discrepancy of features under the kernel (fᵀg / F + 1)³ (Bińkowski et al. 2018, section 4).

    The unbiased estimate, which can be negative, averaged over 10 subsets of 1000 samples, drawn with a seed of their own from
    at most 10,000; smaller sets are taken whole.
    """

    keys: ClassVar = {"eval/kid": low("kernel distance, a squared discrepancy under a cubic kernel, not multiplied by 1000")}
    part = KeptFeatures
    library = LIBRARY

    def __call__(self, real: Part, fake: Part) -> dict[str, float]:
        """Return the distance."""
        f, g = rows_of(real).double(), rows_of(fake).double()
        size = min(SUBSET, len(f), len(g))
        subsets = 1 if len(f) == len(g) == size else SUBSETS
        settings = {"kid_subset_size": size, "kid_subsets": subsets, "rng_seed": 0, "verbose": False}
        return _figure("kid", "kid_features_to_metric", "kernel_inception_distance_mean", f, g, **settings)


class InceptionScore(Comparison):
    """exp of the mean of KL(p(y|x) ‖ p(y)) over generated samples (Salimans et al. 2016), mean of ten parts.

    Real samples play no part, and of generated ones at most 10,000; the papers take 50,000.
    """

    keys: ClassVar = {"eval/inception_score": high("Inception score")}
    part = KeptLogits
    library = LIBRARY
    looks_at_reals = False

    def refuse(self, features: Features, n: int, of: str) -> None:
        """Refuse features without classes."""
        if not features.classes:
            raise EvaluationError(f"it needs features with classes, and {features.name} have none")
        if n < 10 * SPLITS:
            raise EvaluationError(f"it needs at least {10 * SPLITS} {of} samples, and there are {n}")

    def __call__(self, real: Part, fake: Part) -> dict[str, float]:
        """Return the score, from 1 to the number of classes."""
        return _figure("isc", "isc_features_to_metric", "inception_score_mean", rows_of(fake), SPLITS, True, 0)


class PrecisionRecall(Comparison):
    """Improved precision and recall (Kynkäänniemi et al. 2019, eq. 1–3), with the third neighbour, of at most 10,000 samples.

    Precision is the share of generated samples within the real manifold, recall that of real ones within the generated one.
    """

    keys: ClassVar = {"eval/precision": high("precision"), "eval/recall": high("recall")}
    part = KeptFeatures
    library = LIBRARY

    def refuse(self, features: Features, n: int, of: str) -> None:
        """Refuse sets without a third neighbour."""
        refuse_without_neighbours(n, NEIGHBOURS, of)

    def __call__(self, real: Part, fake: Part) -> dict[str, float]:
        """Return both shares."""
        compare = needed("torch_fidelity.metric_prc").prc_features_to_metric
        settings = {"prc_neighborhood": NEIGHBOURS, "prc_batch_size": 1000, "save_cpu_ram": True, "verbose": False}
        found = compare(rows_of(fake), rows_of(real), **settings)
        return {"eval/precision": found["precision"], "eval/recall": found["recall"]}


def _figure(module: str, function: str, figure: str, *args: object, **settings: object) -> dict[str, float]:
    """Return one figure of torch-fidelity's, under this project's key."""
    compare = getattr(needed(f"torch_fidelity.metric_{module}"), function)
    key = {"fid": "eval/fid", "kid": "eval/kid", "isc": "eval/inception_score"}[module]
    return {key: float(compare(*args, **settings)[figure])}
