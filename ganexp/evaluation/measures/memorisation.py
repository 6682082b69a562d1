"""Memorisation: whether samples are copies of training data."""

from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Le
from torch import Tensor

from ganexp.evaluation.base import Measure, high, low
from ganexp.evaluation.features import Features
from ganexp.evaluation.statistics import FirstFeatures
from ganexp.facts import Facts, Misfit
from ganexp.ranges import checked

COPY = 1 / 3
"""A sample is a copy if it lies within this share of the distance to the second nearest training sample (Yoon et al. 2023)."""
AT_ONCE = 2**25
"""The number of distances that are in memory at once."""


class Memorisation(Measure[FirstFeatures]):
    """How near samples lie to training samples, in features.

    A sample is authentic unless its nearest training sample lies nearer to it than to any other training sample; the share of
    authentic samples is AuthPct (Alaa et al. 2022, section 3, as Stein et al. 2023 compute it). A sample is a copy if it is
    three times nearer to its nearest training sample than to the second nearest (Yoon et al. 2023). The nearest distance is the
    median distance of samples to their nearest training sample, divided by that of training samples to the nearest other one:
    0 if most samples are copies, about 1 if samples lie as far from the data as the data lie from each other.

    Noise is authentic too, so the figures say nothing about quality. Copies of a training sample that occurs twice in the data
    count neither as authentic nor as copies.

    Args:
        max_samples: The maximum number of training samples, and of generated ones; copies of other training samples are not
            found.
    """

    keys: ClassVar = {
        "eval/authenticity": high("share of samples that are no near copy of a training sample, AuthPct"),
        "eval/copies": low("share of samples three times nearer to one training sample than to any other"),
        "eval/nearest_distance": high("distance to the nearest training sample, over that of training samples to each other"),
    }
    keeps = FirstFeatures

    @checked
    def __init__(self, *, max_samples: Annotated[int, Ge(3), Le(10**7)] = 50_000) -> None:
        self.max_samples = max_samples

    def check(self, run: Facts) -> None:
        if run.against != "train":
            raise Misfit("looks for copies of training data, and these data are held out", **{"evaluation.against": "train"})

    def least(self, features: Features, of: str) -> int:
        return 3 if of == "real" else 2  # each training sample needs a second neighbour

    def __call__(self, real: FirstFeatures, fake: FirstFeatures) -> dict[str, float]:
        """Return the shares and the ratio of medians, which is 1 where both are 0, as for data that consist of duplicates."""
        training, samples = real.rows.double(), fake.rows.double()
        (nearest, second), which = _nearest_two(samples, training)
        places, back = which.unique(return_inverse=True)
        apart = _nearest_two(training[places], training)[0][1]  # the nearest is the sample itself
        typical = _nearest_two(training[: len(samples)], training)[0][1].median()
        middle = nearest.median()
        return {
            "eval/authenticity": float((nearest > apart[back]).double().mean()),
            "eval/copies": float((nearest < COPY * second).double().mean()),
            "eval/nearest_distance": float(middle / typical) if middle != typical else 1.0,
        }


def _nearest_two(points: Tensor, among: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distances of each point to its nearest two, `(2, N)`, and the index of the nearest, `(N,)`."""
    distances, places = [], []
    for part in points.split(max(1, AT_ONCE // len(among))):
        candidates = torch.cdist(part, among).topk(2, dim=1, largest=False).indices
        # Computed again without the matrix product, which loses the digits of small distances.
        exact = (part[:, None] - among[candidates]).norm(dim=2)
        nearer, order = exact.sort(dim=1, stable=True)
        distances.append(nearer.T)
        places.append(candidates.gather(1, order)[:, 0])
    return torch.cat(distances, 1), torch.cat(places)
