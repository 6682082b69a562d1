"""Adaptive discriminator augmentation."""

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ganexp.augmentations.adaptive import Adaptive, Every, Images, Probability, Target
from ganexp.augmentations.base import refuse_nothing
from ganexp.augmentations.colors import recolored
from ganexp.augmentations.pixels import places, positions, shifted, turned, warped
from ganexp.facts import Facts, Misfit
from ganexp.instruments.scalar import Scalar
from ganexp.ranges import checked


class Ada(Adaptive):
    """A pipeline of transformations, each applied with a probability p that by default adapts (Karras et al. 2020).

    - `blitting`: mirroring, rotation by right angles, translation by whole pixels, up to an eighth of each side.
    - `geometry`: scaling by 2ⁿ, n ~ N(0, 0.2²), rotation, scaling by 2ⁿ and 2⁻ⁿ along the axes, rotation, translation by
      N(0, 0.125²) of the side. Each rotation is by any angle and has probability 1 − √(1 − p), so that at least one of the
      two is applied with probability p.
    - `color`: brightness + N(0, 0.2²), contrast · 2ⁿ, n ~ N(0, 0.5²), luma flipped, hue rotated by any angle, saturation · 2ⁿ,
      n ~ N(0, 1). Grey images have no hue and no saturation.
    - `cutout`: a square of half the side, centred anywhere in the image, becomes 0.

    Departures: images are resampled bilinearly, without the paper's wavelet filter; pixels outside the image are mirrored,
    however far outside they are; filters and noise, which did not help the authors (section 2.2), are missing.

    Args:
        policy: The classes of transformations, in their order; at least one.
        shares: The factor of p for each class, in the order of `policy`; by default 1.
        p: A constant probability, unless `moving` moves it; None for one that adapts to D's overfitting.
        target, images, every: As in `Adaptive`.
    """

    measures: ClassVar = {"augment/p": Scalar("probability of each of ADA's transformations", "last,max", label="p")}
    gathers = True

    @checked
    def __init__(
        self,
        *,
        policy: Sequence[Literal["blitting", "geometry", "color", "cutout"]] = ("blitting", "geometry", "color"),
        shares: Sequence[Probability] | None = None,
        p: Probability | None = None,
        target: Target = 0.6,
        images: Images = 500_000,
        every: Every = 4,
    ) -> None:
        all_classes: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
            "blitting": self.blitting,
            "geometry": self.geometry,
            "color": self.color,
            "cutout": self.cutout,
        }
        refuse_nothing(policy)
        if shares is not None and len(shares) != len(policy):
            raise ValueError(f"shares should have {len(policy)} numbers, one for each class of policy, not {len(shares)}")
        super().__init__(p=p, target=target, images=images, every=every)
        self.policy = [all_classes[name] for name in policy]
        self.shares = [*shares] if shares is not None else [1.0] * len(policy)

    def refuse(self, shape: tuple[int, ...]) -> None:
        super().refuse(shape)
        if shape[0] not in (1, 3) or shape[1] != shape[2]:
            raise ValueError(f"it transforms square images in grey or RGB, but samples of shape {shape} are not")

    def check(self, run: Facts) -> None:
        super().check(run)
        if not run.bounded and self.policy != [self.cutout]:
            raise Misfit("mirrors, rotates and recolours images, which has no meaning for latents", augment="none")

    def transform(self, images: Tensor) -> Tensor:
        assert isinstance(self.p, Tensor)
        for transformation, share in zip(self.policy, self.shares, strict=True):
            images = transformation(images, share * self.p)
        return images

    def blitting(self, images: Tensor, p: Tensor) -> Tensor:
        """Mirror, rotate by right angles, and translate by whole pixels."""
        side = images.shape[3]
        mirrored = self._now_and_then(self.integer(images, 0, 1), 0, p)
        quarters = self._now_and_then(self.integer(images, 0, 3), 0, p)
        shift = torch.stack([self.uniform(images, -0.125, 0.125), self.uniform(images, -0.125, 0.125)])
        down, right = self._now_and_then((shift * side).round().long(), 0, p)
        return shifted(turned(torch.where(mirrored == 1, images.flip(3), images), quarters), down, right)

    def geometry(self, images: Tensor, p: Tensor) -> Tensor:
        """Scale, rotate, stretch, rotate and translate, resampling once."""
        either = 1 - (1 - p).sqrt()
        scale = self._now_and_then(self.normal(images, 0.2).exp2(), 1, p)
        before = self._now_and_then(self.uniform(images, -math.pi, math.pi), 0, either)
        stretch = self._now_and_then(self.normal(images, 0.2).exp2(), 1, p)
        after = self._now_and_then(self.uniform(images, -math.pi, math.pi), 0, either)
        shift = torch.stack([self.normal(images, 0.125), self.normal(images, 0.125)])
        down, right = self._now_and_then(shift * images.shape[3], 0, p)
        return warped(images, *positions(images, scale, before, stretch, after, down, right))

    def color(self, images: Tensor, p: Tensor) -> Tensor:
        """Change brightness, contrast, luma, hue and saturation."""
        brightness = self._now_and_then(self.normal(images, 0.2), 0, p)
        contrast = self._now_and_then(self.normal(images, 0.5).exp2(), 1, p)
        luma = self._now_and_then(1 - 2 * self.integer(images, 0, 1), 1, p)
        hue = self._now_and_then(self.uniform(images, -math.pi, math.pi), 0, p)
        saturation = self._now_and_then(self.normal(images, 1).exp2(), 1, p)
        return recolored(images, brightness, contrast, luma, hue, saturation)

    def cutout(self, images: Tensor, p: Tensor) -> Tensor:
        """Blank a square of half the side, centred anywhere in the image."""
        inside: Tensor | None = None
        size = self._now_and_then(torch.full_like(images[:, :1, :1, :1], 0.5), 0, p)
        for place, side in zip(places(images), images.shape[2:], strict=True):
            within = ((place + 0.5) / side - self.uniform(images)).abs() < size / 2
            inside = within if inside is None else inside & within
        assert inside is not None
        return torch.where(inside, 0, images)

    def _now_and_then(self, drawn: Tensor, otherwise: float, p: Tensor) -> Tensor:
        """Return each image's draw, `(…, B, 1, 1, 1)`, with probability p, and else the neutral value `otherwise`."""
        everyone = self.processes.count * drawn.shape[-4]
        share = torch.empty(everyone, *drawn.shape[-3:], device=drawn.device).uniform_(generator=self.rng)
        return torch.where(self.processes.own(share) < p, drawn, otherwise)
