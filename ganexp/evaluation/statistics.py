"""Statistics of a set, updated batch by batch; all but `Projections` have bounded size."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ganexp.data.feed import to_pixels
from ganexp.data.modes import Modes
from ganexp.facts import UserError

MOST = 10_000
"""The number of features or logits of a set that are kept, by default, for measures that compare samples one by one."""
DIRECTIONS = 128
"""Projections of the sliced Wasserstein distance."""


@dataclass
class FeatureBatch:
    """Samples `(B, …)` with their features `(B, F)`, and logits `(B, K)`, labels `(B,)` and targets `(B, …)` if any."""

    samples: Tensor
    """Empty if no measure reads samples."""
    features: Tensor
    logits: Tensor | None = None
    labels: Tensor | None = None
    targets: Tensor | None = None

    @property
    def known_labels(self) -> Tensor:
        """The labels, which a measure of classes needs."""
        if self.labels is None:
            raise UserError("there are measures of classes, and the samples have no labels")
        return self.labels

    def to(self, device: torch.device | str) -> "FeatureBatch":
        """Return the batch on a device."""
        return self._each(lambda tensor: tensor.to(device))

    def __getitem__(self, which: slice | Tensor) -> "FeatureBatch":
        """Return some of the batch."""
        return self._each(lambda tensor: tensor[which] if len(tensor) else tensor)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "FeatureBatch":
        further = (None if tensor is None else change(tensor) for tensor in (self.logits, self.labels, self.targets))
        return FeatureBatch(change(self.samples), change(self.features), *further)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self.to("cpu"))  # batches go to other processes, which may not have the device


class Statistic:
    """A statistic of a set; `n` counts the samples that it was computed from."""

    n = 0
    of_samples = False
    """Whether it reads samples themselves."""
    of_logits = False
    """Whether it needs logits, so features with classes."""

    _settings: tuple[object, ...] = ()
    """What tells it from other statistics of its class."""

    @property
    def kind(self) -> str:
        """Its class and its settings: measures share statistics of the same kind."""
        return " ".join([f"{type(self).__module__}.{type(self).__qualname__}", *map(str, self._settings)])

    def update(self, batch: FeatureBatch) -> None:
        """Add a batch."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return its public attributes as plain numbers, and tensors on the CPU."""
        public = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return {name: value.cpu() if isinstance(value, Tensor) else value for name, value in public.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the state of another statistic."""
        vars(self).update(state)


Statistics = Mapping[str, Statistic]
"""The statistics of one set, by kind."""


class Moments(Statistic):
    """Mean `(F,)` and covariance `(F, F)` of features in float64, updated by batches (Chan, Golub & LeVeque 1983)."""

    def __init__(self) -> None:
        self.mean = torch.zeros((), dtype=torch.float64)
        self.scatter = torch.zeros((), dtype=torch.float64)
        """Sum of (f − mean)(f − mean)ᵀ."""

    def update(self, batch: FeatureBatch) -> None:
        features, own = batch.features.double(), Moments()
        own.n, own.mean = len(features), features.mean(0)
        own.scatter = (features - own.mean).T @ (features - own.mean)
        self.add(own)

    def add(self, other: "Moments") -> None:
        """Add the moments of further samples."""
        total, device = self.n + other.n, other.mean.device
        shift = other.mean - self.mean.to(device)
        between = torch.outer(shift, shift) * (self.n * other.n / total)
        self.scatter = self.scatter.to(device) + other.scatter + between
        self.mean = self.mean.to(device) + shift * (other.n / total)
        self.n = total

    @property
    def covariance(self) -> Tensor:
        """The unbiased covariance, `(F, F)`."""
        return self.scatter / (self.n - 1)


class MomentsInParts(Statistic):
    """The moments of several parts of a set; sample i belongs to part i modulo the number of parts."""

    def __init__(self, parts: int) -> None:
        self._settings = (parts,)
        self.parts = [Moments() for _ in range(parts)]

    def update(self, batch: FeatureBatch) -> None:
        for place, part in enumerate(self.parts):
            own = slice((place - self.n) % len(self.parts), None, len(self.parts))
            if own.start < len(batch.features):
                part.update(batch[own])
        self.n += len(batch.features)

    def growing(self) -> list[Moments]:
        """Return the moments of the first part, of the first two parts together, and so on up to the whole set."""
        moments: list[Moments] = []
        for part in self.parts:
            grown = copy.copy(moments[-1]) if moments else Moments()
            grown.add(part)
            moments.append(grown)
        return moments


class ClassMoments(Statistic):
    """The moments of each class, by its number; `F² + F` numbers for each class that occurs."""

    def __init__(self) -> None:
        self.of: dict[int, Moments] = {}

    def update(self, batch: FeatureBatch) -> None:
        labels = batch.known_labels
        for label in labels.unique().tolist():
            self.of.setdefault(label, Moments()).update(batch[labels == label])
        self.n += len(labels)

    def state_dict(self) -> dict[str, Any]:
        return {"n": self.n, "of": {label: moments.state_dict() for label, moments in self.of.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.n, self.of = state["n"], {}
        for label, saved in state["of"].items():
            self.of[label] = Moments()
            self.of[label].load_state_dict(saved)


class LabelledImages(Statistic):
    """The first images of a set, at most `most`, in 8 bits, `(n, C, H, W)`, uint8, and their classes, `(n,)`."""

    of_samples = True

    def __init__(self, most: int) -> None:
        self._settings = (most,)
        self.most, self.device = most, "cpu"
        self.images = torch.empty(0, dtype=torch.uint8)
        self.labels = torch.empty(0, dtype=torch.int64)

    def update(self, batch: FeatureBatch) -> None:
        some, self.device = slice(self.most - self.n), str(batch.samples.device)
        images, labels = to_pixels(batch.samples[some]).cpu(), batch.known_labels[some].cpu()
        self.images, self.labels = (
            (torch.cat([self.images, images]), torch.cat([self.labels, labels])) if self.n else (images, labels)
        )
        self.n = len(self.labels)


class FirstFeatures(Statistic):
    """Features `(n, F)` of the first samples, at most `most`; `real_batches` yields samples in a random order."""

    def __init__(self, most: int = MOST) -> None:
        self._settings = (most,)
        self.most = most
        self.rows = torch.empty(0)

    def update(self, batch: FeatureBatch) -> None:
        if self.n < self.most:
            rows = self._rows(batch)[: self.most - self.n].cpu()
            self.rows = torch.cat([self.rows, rows]) if self.n else rows
            self.n = len(self.rows)

    def _rows(self, batch: FeatureBatch) -> Tensor:
        return batch.features


class FirstLogits(FirstFeatures):
    """Logits `(n, K)` of the first samples, likewise."""

    of_logits = True

    def _rows(self, batch: FeatureBatch) -> Tensor:
        assert batch.logits is not None
        return batch.logits


class Projections(Statistic):
    """Samples projected onto `DIRECTIONS` directions, which are the same for all samples of one size: `(n, DIRECTIONS)`."""

    of_samples = True

    def __init__(self) -> None:
        self.batches: list[Tensor] = []

    def update(self, batch: FeatureBatch) -> None:
        flat = batch.samples.flatten(1)
        generator = torch.Generator().manual_seed(0)
        directions = torch.randn(flat.shape[1], DIRECTIONS, generator=generator, dtype=torch.float64)
        directions = (directions / directions.norm(dim=0)).to(flat)
        self.batches.append((flat @ directions).cpu())
        self.n += len(flat)

    @cached_property
    def in_order(self) -> Tensor:
        """All projections, sorted along each direction; cached, since those of the data are compared at every evaluation."""
        return torch.cat(self.batches).T.contiguous().sort().values.T


class ModeCounts(Statistic):
    """The number of samples at each known mode, `(modes,)`, int64; samples at no mode are not of high quality."""

    of_samples = True

    def __init__(self, modes: Modes) -> None:
        self.at = torch.zeros(modes.count, dtype=torch.int64)
        self._modes = modes

    def update(self, batch: FeatureBatch) -> None:
        mode = self._modes.of(batch.samples, batch.logits).cpu()
        self.at = self.at + torch.bincount(mode[mode >= 0], minlength=self._modes.count)
        self.n += len(mode)


class PairMeans(Statistic):
    """The mean over samples of a function of each sample and its target.

    Args:
        of: Maps images and their targets, both `(B, C, H, W)` in [-1, 1], to figures `(B,)`.
        named: A name of the function and its settings.
    """

    of_samples = True

    def __init__(self, of: Callable[[Tensor, Tensor], Tensor], named: str) -> None:
        self._of, self._settings = of, (named,)
        self.total = torch.zeros((), dtype=torch.float64)

    def update(self, batch: FeatureBatch) -> None:
        if batch.targets is not None:  # a half of the real set, compared as if it were generated, has none
            figures = self._of(batch.samples, batch.targets)
            self.total = self.total.to(figures.device) + figures.double().sum()
            self.n += len(figures)

    @property
    def mean(self) -> float:
        if not self.n:
            raise UserError("there are measures of pairs, and it is not known what the samples should be")
        return float(self.total) / self.n
