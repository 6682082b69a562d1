"""Consistency regularisation: D's scores should not change under small transformations of samples or latents."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor, nn

from ganexp.augmentations.base import Augmentation
from ganexp.augmentations.pixels import shifted
from ganexp.batch import Batch, Discriminator
from ganexp.distributed.processes import Processes
from ganexp.facts import Facts, Misfit
from ganexp.penalties.base import Penalty, Seen
from ganexp.ranges import checked
from ganexp.streams import stream

Shift = Annotated[float, Ge(0), Le(0.5)]


class ShiftAndFlip(Augmentation):
    """Translation by whole pixels, up to a share of each side, mirrored at the edges; and a flip with probability 1/2."""

    def __init__(self, shift: float, flip: bool) -> None:
        self.shift = shift
        self.flip = flip

    def transform(self, images: Tensor) -> Tensor:
        """Return images `(B, C, H, W)`, each moved independently."""
        if self.flip:
            images = torch.where(self.integer(images, 0, 1) == 1, images.flip(3), images)
        down, right = (self.integer(images, -most, most) for most in (int(self.shift * side) for side in images.shape[2:]))
        return shifted(images, down, right)


class Consistency(Penalty):
    """weight · mean (D(x) − D(T(x)))² at real samples (Zhang et al. 2020, CR-GAN, equation 2, of scores).

    T is `ShiftAndFlip`, the best of the paper's table 4. D(x) is the score that the loss uses, so D runs one further
    pass. With an augmentation, both scores are taken after it, with separate draws.

    Args:
        weight: The paper's λ.
        shift: Largest translation, as a share of the side; 4 pixels of 32 in the paper.
        flip: Whether images are mirrored; unsuitable for images such as digits, in which left and right differ.
    """

    reads_scores = True
    fixed: ClassVar = {"shift": "is read once, as a number of whole pixels"}

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 10.0, shift: Shift = 0.125, flip: bool = True) -> None:
        self.weight = weight
        self.moved = ShiftAndFlip(shift, flip)

    def check(self, run: Facts) -> None:
        super().check(run)
        if len(run.shape) != 3:
            raise Misfit(f"moves images, and samples of shape {run.shape} are none", penalty=[])
        if self.moved.flip and not run.bounded:
            raise Misfit("mirrors samples, and a mirrored latent is not that of a mirrored image", flip=False)
        if run.reads_source:
            raise Misfit(
                "moves images, but not the sources that D scores them beside",
                penalty=[],
                **{"discriminator.reads_source": False},
            )

    def begin(self, seed: int, device: torch.device) -> None:
        self.rng = self.moved.rng = stream(seed, "consistency", device)

    def share_among(self, processes: Processes) -> None:
        super().share_among(processes)
        self.moved.processes = processes

    def compared(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen) -> Tensor:
        return self.difference(seen.score, x, seen.real_scores)

    def difference(self, score: Callable[[Batch], Tensor], batch: Batch, scores: Tensor) -> Tensor:
        """Return the squared difference between each sample's score and its score after T, `(B,)`."""
        return (scores - score(replace(batch, values=self.moved.transform(batch.values)))).square()


class BalancedConsistency(Consistency):
    """`Consistency` at real and at generated samples: bCR (Zhao et al. 2021, ICR-GAN, algorithm 1).

    Args:
        real_weight, fake_weight: The paper's λ_real and λ_fake.
        shift, flip: As in `Consistency`.
    """

    gathers = True  # of fakes that keep their graph

    on_device: ClassVar = {"real_weight": None, "fake_weight": None}

    @checked
    def __init__(
        self,
        *,
        real_weight: Annotated[float, Ge(0)] = 10.0,
        fake_weight: Annotated[float, Ge(0)] = 10.0,
        shift: Shift = 0.125,
        flip: bool = True,
    ) -> None:
        super().__init__(weight=1.0, shift=shift, flip=flip)
        self.real_weight = real_weight
        self.fake_weight = fake_weight

    def compared(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen) -> Tensor:
        """Return the sum of both weighted means, a scalar."""
        at_real = self.difference(seen.score, x, seen.real_scores)
        at_fake = self.difference(seen.score, fake, seen.fake_scores)
        return self.real_weight * at_real.mean() + self.fake_weight * at_fake.mean()


class LatentConsistency(Penalty):
    """zCR: D should score samples of nearby latents alike, and G make them differ (Zhao et al. 2021, ICR-GAN, algorithm 2).

    D's loss gets d_weight · mean (D(G(z)) − D(G(z + δ)))², and G's loss −g_weight · mean (G(z) − G(z + δ))², a mean over
    samples and pixels; δ ~ N(0, noise²) is drawn separately for the two losses. Each network's update takes a further pass of
    G, and D's update also one of D. Together with `BalancedConsistency` it is the paper's ICR.

    Args:
        d_weight, g_weight: The paper's λ_dis and λ_gen.
        noise: The paper's σ.
    """

    reads_scores = True

    on_device: ClassVar = {"d_weight": None, "g_weight": None}

    @checked
    def __init__(
        self,
        *,
        d_weight: Annotated[float, Ge(0)] = 20.0,
        g_weight: Annotated[float, Ge(0)] = 0.5,
        noise: Annotated[float, Gt(0)] = 0.05,
    ) -> None:
        self.d_weight = d_weight
        self.g_weight = g_weight
        self.noise = noise

    def check(self, run: Facts) -> None:
        super().check(run)
        if run.source_shape:
            raise Misfit("looks at latents nearby, and these data give G sources", penalty=[])

    def begin(self, seed: int, device: torch.device) -> None:
        self.rng = stream(seed, "latent consistency", device)

    def compared(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen) -> Tensor:
        with torch.set_grad_enabled(fake.values.requires_grad):  # where D's objective is a function of both networks
            near = seen.generate(self._nearby(fake))
        return self.d_weight * (seen.fake_scores - seen.score(near)).square()

    def g_term(self, generator: nn.Module, fake: Batch, generate: Callable[[Batch], Batch]) -> Tensor:
        return -self.g_weight * (fake.values - generate(self._nearby(fake)).values).square().mean()

    def _nearby(self, fake: Batch) -> Batch:
        """Return latents near those of a batch of G's own fakes, under its conditions."""
        z = fake.source
        if z is None:
            raise ValueError(
                "latent consistency compares samples with those of latents nearby, and D is shown fakes from a buffer: choose "
                "a wrapper list without replay"
            )
        drawn = torch.empty(self.processes.count * len(z), z.shape[1], device=z.device, dtype=z.dtype)
        near = z + self.processes.own(drawn.normal_(0, self.noise, generator=self.rng))
        return replace(fake, values=near, source=None)
