"""Adaptive pseudo augmentation: fakes among the real samples."""

from typing import ClassVar

import torch
from torch import Tensor

from ganexp.augmentations.adaptive import Adaptive, Every, Images, Probability, Target
from ganexp.batch import Batch
from ganexp.instruments.scalar import Scalar
from ganexp.ranges import checked


class Apa(Adaptive):
    """Generated samples take the places of real ones in D's updates, each with probability p (Jiang et al. 2021, section 3.2).

    In D's loss they count as real, with the labels that they were generated under, and penalties at real samples include them.
    p adapts as in `Adaptive`, by λ_r instead of r_t: the mean sign of D's scores of these mixed batches. The images themselves
    and G's updates do not change.

    Departures: the samples are the fakes of the same update, whereas the authors take them from G's last update; p is at
    most 1.

    Args:
        p: A constant probability; None for an adaptive one.
        target, images, every: As in `Adaptive`.
    """

    keeps_images = True
    measures: ClassVar = {
        "augment/p": Scalar("probability that a generated sample is shown as a real one", "last,max", label="p")
    }

    @checked
    def __init__(
        self, *, p: Probability | None = None, target: Target = 0.6, images: Images = 500_000, every: Every = 4
    ) -> None:
        super().__init__(p=p, target=target, images=images, every=every)

    def transform(self, images: Tensor) -> Tensor:
        return images

    def shown_as_real(self, x: Batch, fake: Batch) -> Batch:
        replaced = self.uniform(x.values) < self.p

        def mixed(of_fake: Tensor, of_real: Tensor) -> Tensor:
            return torch.where(replaced.view(-1, *[1] * (of_real.dim() - 1)), of_fake, of_real)

        def if_any(of_fake: Tensor | None, of_real: Tensor | None) -> Tensor | None:
            return None if of_fake is None or of_real is None else mixed(of_fake, of_real)

        conditions = tuple(map(mixed, fake.conditions, x.conditions))
        source, target = if_any(fake.source, x.source), if_any(fake.target, x.target)
        return Batch(mixed(fake.values.detach(), x.values), conditions, source, target)
