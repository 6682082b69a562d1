"""What is kept of a set of samples that comes batch by batch: as little as a measure needs, and never without bound."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ganexp.data.modes import Modes

MOST = 10_000
"""So many features or logits of one set are kept for measures that compare them one by one."""
DIRECTIONS = 128
"""Projections of the sliced Wasserstein distance."""


@dataclass
class FeatureBatch:
    """A batch as measures look at it: samples `(B, …)`, features `(B, F)`, and logits `(B, K)` if the features have classes."""

    samples: Tensor
    """None of them where no measure looks at samples."""
    features: Tensor
    logits: Tensor | None = None

    def to(self, device: torch.device | str) -> "FeatureBatch":
        """Return it on a device."""
        logits = None if self.logits is None else self.logits.to(device)
        return FeatureBatch(self.samples.to(device), self.features.to(device), logits)

    def __getitem__(self, which: slice) -> "FeatureBatch":
        """Return some of the batch."""
        return FeatureBatch(self.samples[which], self.features[which], None if self.logits is None else self.logits[which])

    def __getstate__(self) -> dict[str, Any]:
        return vars(self.to("cpu"))  # from one process to another, which may not have the device


class Statistic:
    """What one kind of measure keeps of a set; `n` counts the samples of which it was kept."""

    n = 0
    of_samples = False
    """Whether it looks at samples themselves."""

    def update(self, batch: FeatureBatch) -> None:
        """Take a further batch."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return it as plain numbers, and tensors on the CPU."""
        return {name: value.cpu() if isinstance(value, Tensor) else value for name, value in vars(self).items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over the state of another statistic."""
        vars(self).update(state)


class Moments(Statistic):
    """Mean `(F,)` and covariance `(F, F)` of features in float64, updated by batches (Chan, Golub & LeVeque 1983)."""

    def __init__(self) -> None:
        self.mean = torch.zeros((), dtype=torch.float64)
        self.scatter = torch.zeros((), dtype=torch.float64)
        """Sum of (f − mean)(f − mean)ᵀ."""

    def update(self, batch: FeatureBatch) -> None:
        """Take a further batch."""
        features = batch.features.double()
        count, mean = len(features), features.mean(0)
        centred, shift = features - mean, mean - self.mean.to(features.device)
        total = self.n + count
        between = torch.outer(shift, shift) * (self.n * count / total)
        self.scatter = self.scatter.to(features.device) + centred.T @ centred + between
        self.mean = self.mean.to(features.device) + shift * (count / total)
        self.n = total

    @property
    def covariance(self) -> Tensor:
        """The unbiased covariance, `(F, F)`."""
        return self.scatter / (self.n - 1)


class _FirstRows(Statistic):
    """The first `MOST` rows of something; `real_batches` comes in random order."""

    def __init__(self) -> None:
        self.rows = torch.empty(0)

    def update(self, batch: FeatureBatch) -> None:
        """Take a further batch."""
        if self.n < MOST:
            rows = self._rows(batch)[: MOST - self.n].cpu()
            self.rows = torch.cat([self.rows, rows]) if self.n else rows
            self.n = len(self.rows)

    def _rows(self, batch: FeatureBatch) -> Tensor:
        raise NotImplementedError


class FirstFeatures(_FirstRows):
    """Features `(n, F)` of the first `MOST` samples."""

    def _rows(self, batch: FeatureBatch) -> Tensor:
        return batch.features


class FirstLogits(_FirstRows):
    """Logits `(n, K)` of the first `MOST` samples."""

    def _rows(self, batch: FeatureBatch) -> Tensor:
        assert batch.logits is not None
        return batch.logits


class Projections(Statistic):
    """Samples projected on `DIRECTIONS` directions that are the same for every set of their size: `(n, DIRECTIONS)`."""

    of_samples = True

    def __init__(self) -> None:
        self.batches: list[Tensor] = []

    def update(self, batch: FeatureBatch) -> None:
        """Take a further batch."""
        flat = batch.samples.flatten(1)
        generator = torch.Generator().manual_seed(0)
        directions = torch.randn(flat.shape[1], DIRECTIONS, generator=generator, dtype=torch.float64)
        directions = (directions / directions.norm(dim=0)).to(flat)
        self.batches.append((flat @ directions).cpu())
        self.n += len(flat)

    @cached_property
    def in_order(self) -> Tensor:
        """All of them, sorted along each direction; once, since those of the data are compared at every evaluation."""
        return torch.cat(self.batches).T.contiguous().sort().values.T


class ModeCounts(Statistic):
    """How many samples lie at each known mode, `(modes,)`, int64; the others are not of high quality."""

    of_samples = True

    def __init__(self, modes: Modes) -> None:
        self.at = torch.zeros(modes.count, dtype=torch.int64)
        self._modes = modes

    def update(self, batch: FeatureBatch) -> None:
        """Take a further batch."""
        mode = self._modes.of(batch.samples, batch.logits).cpu()
        self.at = self.at + torch.bincount(mode[mode >= 0], minlength=self._modes.count)
        self.n += len(mode)

    def state_dict(self) -> dict[str, Any]:
        """Return the counts."""
        return {"n": self.n, "at": self.at}
