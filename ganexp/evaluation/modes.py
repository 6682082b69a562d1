"""Which known mode of the data a sample belongs to."""

from typing import Protocol

import torch
from torch import Tensor

NEAR = 3.0
"""A point is of high quality within this many standard deviations of a mode (Srivastava et al. 2017)."""


class Modes(Protocol):
    """The known modes of a data set, all equally likely."""

    count: int
    name: str

    def of(self, samples: Tensor, logits: Tensor | None) -> Tensor:
        """Return the mode of each sample, `(B,)`, int64, or −1 for one that is not of high quality."""
        ...


class Gaussians:
    """Modes of a mixture of Gaussians: the nearest centre, of points within `NEAR` standard deviations of it.

    Args:
        centers: `(modes, 2)`.
        std: Standard deviation in each direction.
    """

    def __init__(self, centers: Tensor, std: float) -> None:
        self.centers, self.std = centers, std
        self.count = len(centers)
        self.name = f"within {NEAR:g} standard deviations of a mode"

    def of(self, samples: Tensor, logits: Tensor | None = None) -> Tensor:
        """Return the mode of each point of `(B, 2)`, or −1."""
        distance, nearest = torch.cdist(samples, self.centers.to(samples)).min(1)
        return nearest.where(distance < NEAR * self.std, -1)


class Classes:
    """Modes that a classifier tells apart, such as the 1000 of stacked MNIST (Metz et al. 2017): the likeliest one.

    Args:
        count: Number of classes.
        name: Of the classifier.
    """

    def __init__(self, count: int, name: str) -> None:
        self.count, self.name = count, f"by {name}"

    def of(self, samples: Tensor, logits: Tensor | None) -> Tensor:
        """Return the likeliest class of each sample."""
        assert logits is not None
        return logits.argmax(1)
