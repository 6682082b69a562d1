"""The known modes of a data set, and the mode of a sample."""

import torch
from torch import Tensor

NEAR = 3.0
"""A point is of high quality within this many standard deviations of a mode (Srivastava et al. 2017)."""


class Modes:
    """The known modes of a data set, `count` of them, all equally likely."""

    name = ""
    """How the mode of a sample is determined, in words."""

    by_classes = False
    """Whether modes are classes, so that logits tell them apart."""

    def __init__(self, count: int) -> None:
        self.count = count

    def of(self, samples: Tensor, logits: Tensor | None = None) -> Tensor:
        """Return the mode of each sample, `(B,)`, int64, or −1 for one that is not of high quality."""
        raise NotImplementedError


class Gaussians(Modes):
    """Modes of a mixture of Gaussians: a point's is the nearest centre of `(modes, 2)`, within `NEAR` standard deviations."""

    name = f"a radius of {NEAR:g} standard deviations per mode"

    def __init__(self, centers: Tensor, std: float) -> None:
        super().__init__(len(centers))
        self.centers, self.std = centers, std

    def of(self, samples: Tensor, logits: Tensor | None = None) -> Tensor:
        exact = "donot_use_mm_for_euclid_dist"  # products would cancel for modes that are far from the origin
        distance, nearest = torch.cdist(samples, self.centers.to(samples), compute_mode=exact).min(1)
        return nearest.where(distance < NEAR * self.std, -1)


class Classes(Modes):
    """Modes that a classifier tells apart, such as the 1000 of stacked MNIST (Metz et al. 2017): a sample's likeliest class."""

    name = "the likeliest class"
    by_classes = True

    def of(self, samples: Tensor, logits: Tensor | None = None) -> Tensor:
        assert logits is not None
        return logits.argmax(1)
