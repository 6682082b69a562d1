"""The contract of an augmentation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ganexp.batch import Batch, Discriminator, read
from ganexp.distributed.processes import Processes
from ganexp.facts import Facts, Misfit, Part
from ganexp.instruments.scalar import Scalar
from ganexp.streams import Drawing, stream


class Augmentation(Drawing, Part):
    """A random transformation T of images, drawn separately for every batch that D scores, real or generated.

    D sees only T(x): in its own updates; in G's updates, whose gradient flows through T; and in penalties, whose gradient is
    that of D∘T at the sample itself, as in Karras et al. 2020. Each image is transformed independently, with its own random
    numbers, so D∘T scores images independently if D does, as `one_stage` requires.
    """

    measures: ClassVar[Mapping[str, Scalar]] = {}
    """The scalars of `measurements` by key, as for a loss."""

    keeps_images = False
    """Whether images stay as they are, so that D may score them beside their sources."""

    reads_signs = False
    """Whether it adapts to the signs of D's scores, so that the loss must have its boundary at 0."""

    gathers = False
    """Whether gradients flow through `gather`, whose deterministic kernel waits for the host, so no CUDA graph can hold it."""

    processes = Processes()
    """The processes that train together: each draws random numbers for the global batch and takes its own share of them."""

    pack = 1
    """The number of images that are stacked in the channels of a sample of D."""

    def begin(self, seed: int, device: torch.device, pack: int = 1) -> None:
        """Seed the random stream, and create the state on the device; called once, by the GAN."""
        self.rng = stream(seed, "augmentation", device)
        self.pack = pack

    def transform(self, images: Tensor) -> Tensor:
        """Transform images `(B, C, H, W)` in [-1, 1] differentiably, each independently, and keep their shape."""
        raise NotImplementedError

    def refuse(self, shape: tuple[int, ...]) -> None:
        """Refuse a shape of samples that the augmentation cannot transform."""
        if len(shape) != 3:
            raise ValueError(f"it transforms images, but samples of shape {shape} are not images")

    def check(self, run: Facts) -> None:
        try:
            self.refuse(run.shape)
        except ValueError as error:
            raise Misfit(f"does not fit these data: {error}", augment="none") from None
        if run.reads_source and not self.keeps_images:
            raise Misfit(
                "transforms images, but not the sources that D scores them beside",
                augment="none",
                **{"discriminator.reads_source": False},
            )
        if self.reads_signs and run.loss.boundary != 0:
            raise Misfit(
                "adapts to the signs of D's scores, which have no meaning with this loss", augment="diffaugment", loss="hinge"
            )

    def __call__(self, batch: Batch) -> Batch:
        """Return a transformed batch under the same conditions."""
        images = batch.values.unflatten(1, (self.pack, -1)).flatten(0, 1)
        self.refuse(tuple(images.shape[1:]))
        return replace(batch, values=self.transform(images).unflatten(0, (-1, self.pack)).flatten(1, 2))

    def shown_as_real(self, x: Batch, fake: Batch) -> Batch:
        """Return the samples that count as real in D's updates; by default the real samples."""
        return x

    def before(self, discriminator: Discriminator) -> Discriminator:
        """Return D∘T, which maps samples and their conditions to scores; each call draws a new T."""
        return Augmented(self, discriminator)

    def observe(self, real_scores: Tensor) -> None:
        """Update the augmentation's own state after an update of D, from the scores `(B,)` of the real samples."""

    def measurements(self) -> dict[str, Tensor]:
        """Return the scalars that `measures` declares."""
        return {}

    def uniform(self, images: Tensor, low: float = 0, high: float = 1) -> Tensor:
        """Draw a number from [low, high) for each image, `(B, 1, 1, 1)`."""
        return self.processes.own(self._one_each(images).uniform_(low, high, generator=self.rng))

    def normal(self, images: Tensor, std: float) -> Tensor:
        """Draw a normal number of mean 0 for each image, `(B, 1, 1, 1)`."""
        return self.processes.own(self._one_each(images).normal_(0, std, generator=self.rng))

    def integer(self, images: Tensor, low: int, high: int) -> Tensor:
        """Draw an integer from low to high, both included, for each image, `(B, 1, 1, 1)`, int64."""
        return (self.uniform(images) * (high - low + 1)).floor().long() + low

    def _one_each(self, images: Tensor) -> Tensor:
        """Return an uninitialised tensor of one number for each image of the global batch."""
        return images.new_empty(self.processes.count * len(images), 1, 1, 1)


def refuse_nothing(policy: Sequence[str]) -> None:
    """Refuse a policy of no transformations."""
    if not policy:
        raise ValueError("policy should name at least one kind of transformation; choose augment=none for none")


class Augmented:
    """D∘T, for a discriminator D and an augmentation T."""

    def __init__(self, augmentation: Augmentation, discriminator: Discriminator) -> None:
        self.augmentation = augmentation
        self.discriminator = discriminator

    def __call__(self, values: Tensor, *conditions: Tensor) -> Tensor:
        """Return the scores of samples after T."""
        return self.discriminator(self.augmentation(Batch(values)).values, *conditions)

    def read(self, what: Callable[[nn.Module], Any]) -> Any:
        """Apply a function to the module of D, for penalties on weights."""
        return read(self.discriminator, what)


class NoAugmentation(Augmentation):
    """Samples as they are."""

    keeps_images = True

    def begin(self, seed: int, device: torch.device, pack: int = 1) -> None:
        pass

    def refuse(self, shape: tuple[int, ...]) -> None:
        pass

    def __call__(self, batch: Batch) -> Batch:
        return batch

    def before(self, discriminator: Discriminator) -> Discriminator:
        return discriminator
