"""The maximum mean discrepancy of CLIP's embeddings."""

from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor
from torch.nn.functional import normalize

from ganexp.data.modes import Modes
from ganexp.evaluation.base import Measure, low
from ganexp.evaluation.features import PUBLISHED, Features
from ganexp.evaluation.statistics import FirstFeatures
from ganexp.ranges import checked


class CMMD(Measure[FirstFeatures]):
    """Squared maximum mean discrepancy of CLIP's embeddings under exp(−‖x − y‖² / 2σ²), × 1000 (Jayasumana et al. 2024, eq. 4).

    Embeddings are scaled to norm 1. As in the authors' code, means are over all pairs, including each sample with itself, so
    the figure is never negative, and 0 for equal sets; it is biased upwards by about 1000 (1 − mean kernel) (1/n + 1/m). It is
    computed in float64. Departures: the paper uses 30,000 samples, and CLIP ViT-L/14 at 336 pixels, `clip_vitl14_336`.

    Args:
        sigma: σ.
        max_samples: The maximum number of samples of each set.
    """

    keys: ClassVar = {"eval/cmmd": low("squared maximum mean discrepancy of CLIP embeddings under an RBF kernel, × 1000")}
    keeps = FirstFeatures
    rank = 8
    only_in = tuple(name for name, published in PUBLISHED.items() if published.is_clip)

    @checked
    def __init__(
        self, *, sigma: Annotated[float, Gt(0)] = 10.0, max_samples: Annotated[int, Ge(2), Le(10**7)] = 10_000
    ) -> None:
        self.sigma, self.max_samples = sigma, max_samples

    def unsuited(self, features: Features, modes: Modes | None) -> str:
        if features.name.partition(" ")[0] in self.only_in:
            return ""
        return f"it is of CLIP's embeddings, and not of {features.name}: choose evaluation.features=clip_vitl14_336"

    def __call__(self, real: FirstFeatures, fake: FirstFeatures) -> dict[str, float]:
        x, y = (normalize(embeddings.rows.double(), dim=1) for embeddings in (real, fake))
        return {"eval/cmmd": 1000 * (2 * self._below_one(x, y) - self._below_one(x, x) - self._below_one(y, y))}

    def _below_one(self, x: Tensor, y: Tensor) -> float:
        """Return how far the mean kernel is below 1, to keep the digits of kernels close to 1."""
        sums = ((-torch.expm1((part @ y.T - 1) / self.sigma**2)).sum() for part in x.split(1000))
        return float(sum(sums)) / (len(x) * len(y))
