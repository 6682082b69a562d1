"""Differentiable augmentation."""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from ganexp.augmentations.base import Augmentation, refuse_nothing
from ganexp.augmentations.pixels import places, translated
from ganexp.facts import Facts, Misfit
from ganexp.ranges import checked


class DiffAugment(Augmentation):
    """Colour, translation and cutout of every image that D scores (Zhao et al. 2020, section 3.2, and their code).

    - `color`: a brightness from [-0.5, 0.5] is added, channels' distances from the pixel's mean are multiplied by a saturation
      from [0, 2], and distances from the image's mean by a contrast from [0.5, 1.5]. Grey images have no saturation.
    - `translation`: by whole pixels, up to an eighth of each side; pixels shifted in are 0.
    - `cutout`: a rectangle of half of each side, centred anywhere in the image, becomes 0.

    Args:
        policy: Which of them are applied, in this order; at least one.
    """

    gathers = True

    @checked
    def __init__(
        self, *, policy: Sequence[Literal["color", "translation", "cutout"]] = ("color", "translation", "cutout")
    ) -> None:
        transformations: dict[str, Callable[[Tensor], Tensor]] = {
            "color": self.color,
            "translation": self.translation,
            "cutout": self.cutout,
        }
        refuse_nothing(policy)
        self.policy = [transformations[name] for name in policy]

    def check(self, run: Facts) -> None:
        super().check(run)
        if self.color in self.policy and not run.bounded:
            raise Misfit("changes colours, which latents do not have", policy="[translation,cutout]")

    def transform(self, images: Tensor) -> Tensor:
        for transformation in self.policy:
            images = transformation(images)
        return images

    def color(self, images: Tensor) -> Tensor:
        """Change brightness, saturation and contrast, in this order."""
        images = images + self.uniform(images, -0.5, 0.5)
        grey = images.mean(1, keepdim=True)
        images = torch.lerp(grey, images, self.uniform(images, 0, 2))
        mean = images.mean((1, 2, 3), keepdim=True)
        return torch.lerp(mean, images, self.uniform(images, 0.5, 1.5))

    def translation(self, images: Tensor) -> Tensor:
        """Translate by up to an eighth of each side, rounded to whole pixels."""
        down, right = (self.integer(images, -most, most) for most in (int(side / 8 + 0.5) for side in images.shape[2:]))
        return translated(images, down, right)

    def cutout(self, images: Tensor) -> Tensor:
        """Blank a rectangle of half the sides, rounded; one of an even size has its centre between pixels, or on an edge."""
        keep: Tensor | None = None
        for place, side in zip(places(images), images.shape[2:], strict=True):
            size = int(side / 2 + 0.5)
            first = self.integer(images, 0, side - size % 2) - size // 2
            within = (place >= first) & (place < first + size)
            keep = ~within if keep is None else keep | ~within
        assert keep is not None
        return torch.where(keep, images, 0)
