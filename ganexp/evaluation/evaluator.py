"""A real set, and the measures that compare generated ones with it."""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.batch import Batch
from ganexp.data.decoding import DecodingError
from ganexp.data.feed import to_range
from ganexp.data.modes import Modes
from ganexp.data.workers import loader
from ganexp.evaluation import cache
from ganexp.evaluation.base import Measure
from ganexp.evaluation.features import Features, Raw, needed
from ganexp.evaluation.statistics import FeatureBatch, Moments, Statistic, Statistics
from ganexp.facts import UserError
from ganexp.instruments.scalar import Scalar

log = logging.getLogger(__name__)
BATCH = 250
CONSTANT = 1e-5, 1e-12
"""Features are constant if their spread over the real set is at most the first times their mean's norm, plus the second."""


class Evaluator:
    """Compares generated sets with one real set.

    Args:
        measures: Measures, by the names that messages call them.
        features: What maps samples to features.
        samples: How many samples a generated set has.
        modes: Known modes of the data, for measures that count them.
        against: What the real set is, in words, if it is not the training data: descriptions of figures say so.
        optional: The measures that are left out, with a warning, where there are too few samples for them.

    Raises:
        UserError: A measure has no value for such features or so few samples.
    """

    def __init__(
        self,
        measures: Mapping[str, Measure[Any]],
        features: Features,
        *,
        samples: int,
        modes: Modes | None = None,
        against: str = "",
        optional: Collection[str] = (),
    ) -> None:
        self.optional = optional
        self.measures = dict(measures)
        self.features, self.samples, self.modes, self.against = features, samples, modes, against
        self._real: Statistics = {}
        self._of_halves: dict[str, float] = {}
        self._reals = self._half = 0
        for name, measure in self.measures.items():
            with _about(name):
                if reason := measure.unsuited(features, modes):
                    raise UserError(reason)
                if measure.library:
                    needed(measure.library)
        self._refuse_few(samples, "generated", self.measures)

    @property
    def keys(self) -> dict[str, Scalar]:
        """Descriptions of the figures, with the features of each, and its value for real data after `see_reals`."""
        found = {}
        fewer = min(self.samples, self._reals or self.samples)
        for measure in self.measures.values():
            against = f" against {self.against}" if self.against and measure.looks_at_reals else ""
            by = (measure.basis(self.features, self.modes), measure.said_of(fewer), f"{self.samples:,} samples{against}")
            basis = ", ".join(filter(None, by))
            note = getattr(self.features, "note", "") if measure.sees_features(self.modes) else ""
            for key, one in measure.keys.items():
                real = self._of_halves.get(key)
                of_real = "" if real is None else f"; real data, two halves of {self._half:,}: {real:.4g}"
                told = f"{one.meaning}, {basis}{note and f'; {note}'}{of_real}"
                found[key] = replace(one, meaning=told, basis=basis, note=note, real=real)
        return found

    @torch.no_grad()
    def see_reals(self, batches: Iterable[Batch | Tensor], n: int, *, folder: Path | None = None, identity: str = "") -> None:
        """Compute the statistics of the real set that the measures need, or load them if they were kept in a folder before.

        The first samples, as many as a generated set has but at most half of the real set, are compared with as many further
        ones: generated samples cannot be expected to have better figures.

        Args:
            batches: The set, in random order; with labels, if a measure looks at classes.
            n: Its size.
            folder: Where statistics are kept.
            identity: What tells this set and its preparation from any other; empty if nothing of it is to be kept.

        Raises:
            UserError: The set is too small for a measure, or not finite, or its features are constant.
        """
        self._refuse_few(n, "real", [name for name, measure in self.measures.items() if measure.looks_at_reals])
        statistics = self._empty_reals()
        self._reals, self._half = n, min(self.samples, n // 2)
        names = [f"{type(one).__module__}.{type(one).__qualname__} {one.settings}" for one in self.measures.values()]
        described = (identity, names, self._half, self.modes.name if self.modes else "")
        path = cache.place(folder, described, self.features, n, statistics) if folder and identity else None
        recalled = cache.recall(path, statistics) if path else None
        if recalled is None:
            one, other = self._empty_reals(), self.empty()
            extracted = (self._extracted(batch, "real") for batch in batches)
            update(statistics, _passing_on(extracted, (one, other), self._half, further=bool(statistics)))
            recalled = statistics, self._halves_compared(one, other)
            if path:
                cache.keep(path, *recalled)
        self._refuse_constant(recalled[0])
        self._real, self._of_halves = recalled

    def _refuse_few(self, n: int, of: str, names: Iterable[str]) -> None:
        """Refuse `real` or `generated` sets that are too small for a measure, or leave the measure out if it is optional."""
        for name in [*names]:
            try:
                with _about(name):
                    self.measures[name].refuse(self.features, n, of)
            except UserError as error:
                if name not in self.optional or len(self.measures) == 1:
                    raise
                log.warning("Samples are not measured by %s.", error)
                del self.measures[name]

    def _refuse_constant(self, statistics: Statistics) -> None:
        """Refuse features that are equal for all real samples: no measure is meaningful for them."""
        moments = statistics.get(Moments().kind)
        if not isinstance(moments, Moments) or isinstance(self.features, Raw):  # samples themselves hide nothing
            return
        relative, absolute = CONSTANT
        spread = float(moments.scatter.trace() / max(1, moments.n - 1)) ** 0.5
        if spread <= relative * float(moments.mean.norm()) + absolute:
            raise UserError(
                f"the features of {self.features.name} are the same for all real samples and so judge nothing: choose others"
            )

    @torch.no_grad()
    def __call__(self, batches: Iterable[Batch | Tensor]) -> dict[str, float]:
        """Compare a generated set, given batch by batch, and return the figures by key.

        Raises:
            UserError: The set is not finite, has another number of samples than announced, or a measure has no value.
        """
        statistics = self.empty()
        return self.figures(statistics, update(statistics, map(self.extract, batches)))

    @torch.no_grad()
    def extract(self, samples: Batch | Tensor) -> FeatureBatch:
        """Return the features, logits and samples that the measures need from a generated batch.

        Raises:
            UserError: The samples or their features are not finite.
        """
        batch = self._extracted(samples, "generated")
        looked_at = any(measure.keeps.of_samples for measure in self.measures.values())
        return batch if looked_at else replace(batch, samples=batch.samples.new_empty(0), targets=None)

    def figures(self, statistics: Statistics, count: int) -> dict[str, float]:
        """Return the figures of a generated set of `count` samples from its statistics.

        Raises:
            UserError: The set has another number of samples than announced, or a measure has no value.
        """
        if count != self.samples:
            raise UserError(f"{self.samples} generated samples were announced, and there are {count}")
        figures: dict[str, float] = {}
        for measure in self.measures.values():
            figures |= self._figures(measure, self._real, statistics)
        for key, figure in figures.items():
            if not math.isfinite(figure):
                raise UserError(f"{key} is {figure}")
        return figures

    def _halves_compared(self, one: Statistics, other: Statistics) -> dict[str, float]:
        """Return the figures of one half of the real set against the other, except for measures that need larger halves."""
        figures: dict[str, float] = {}
        for measure in self.measures.values():
            with suppress(UserError):
                for of in ("real", "generated"):  # one half stands for a generated set
                    measure.refuse(self.features, self._half, of)
                figures |= self._figures(measure, one, other)
        return {key: figure for key, figure in figures.items() if math.isfinite(figure)}

    def empty(self) -> Statistics:
        """Return empty statistics for a generated set."""
        return _by_kind(measure.statistic(self.features, self.modes) for measure in self.measures.values())

    def _empty_reals(self) -> Statistics:
        """Return empty statistics for the real set."""
        looking = [measure for measure in self.measures.values() if measure.looks_at_reals]
        seen = any(measure.sees_features(self.modes) for measure in looking) and not isinstance(self.features, Raw)
        own = [measure.statistic_of_reals(self.features, self.modes) for measure in looking]
        return _by_kind([*own, *[Moments()] * seen])  # the moments say whether features are constant

    def _figures(self, measure: Measure[Any], reals: Statistics, fakes: Statistics) -> dict[str, float]:
        """Return a measure's figures for two sets; a measure that does not look at reals is given the generated set twice."""
        fake = fakes[measure.statistic(self.features, self.modes).kind]
        real = reals[measure.statistic_of_reals(self.features, self.modes).kind] if measure.looks_at_reals else fake
        figures = measure(real, fake)
        if undeclared := figures.keys() - measure.keys.keys():
            said = ", ".join(sorted(undeclared))
            raise UserError(f"{type(measure).__name__} returned {said}, without saying in its keys what that is")
        return figures

    def _extracted(self, of_set: Batch | Tensor, of: str) -> FeatureBatch:
        batch = Batch.of(of_set)
        samples, (labels, *_) = batch.values, (*batch.conditions, None)
        if not bool(torch.isfinite(samples).all()):
            raise UserError(f"the {of} samples are not finite")
        features, logits = self.features(samples)
        if not bool(torch.isfinite(features).all()):
            raise UserError(f"the features of the {of} samples are not finite")
        return FeatureBatch(samples, features, logits, labels, batch.target)


def _by_kind(statistics: Iterable[Statistic]) -> Statistics:
    return {one.kind: one for one in statistics}


def _passing_on(
    batches: Iterable[FeatureBatch], halves: tuple[Statistics, Statistics], n: int, *, further: bool
) -> Iterator[FeatureBatch]:
    """Yield the batches, and update the two halves with the first `n` samples and the next `n`; stop there unless `further`."""
    begin = 0
    for batch in batches:
        for half, first in zip(halves, (0, n), strict=True):
            own = slice(max(first - begin, 0), max(first + n - begin, 0))
            if own.start < own.stop and own.start < len(batch.features):
                update(half, [batch[own]])
        begin += len(batch.features)
        yield batch
        if not further and begin >= 2 * n:
            return


def update(statistics: Statistics, batches: Iterable[FeatureBatch]) -> int:
    """Update the statistics of a set, and return how many samples it has."""
    n = 0
    for batch in batches:
        for statistic in statistics.values():
            statistic.update(batch)
        n += len(batch.features)
    return n


def real_batches(
    data: Tensor | MapStyle[Tensor],
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    workers: int = 0,
    derive: Callable[[Batch], Batch] = lambda batch: batch,
) -> Iterator[Tensor]:
    """Yield all data once, in a random order that is always the same: images in [-1, 1], points as they are.

    Args:
        data: What a dataset has loaded.
        device: Where the batches are made.
        dtype: Their type.
        workers: How many processes read data that are not in memory.
        derive: `Dataset.derive`, which separates samples from their sources.

    Raises:
        UserError: An image cannot be decoded.
    """
    order = _order(len(data))  # type: ignore[arg-type]
    batches: Iterable[Tensor]
    if isinstance(data, Tensor):
        batches = (data.index_select(0, part.to(data.device)) for part in order.split(BATCH))
    else:
        batches = loader(data, workers, torch.Generator(), batch_size=BATCH, sampler=order.tolist())
    try:
        for batch in batches:
            yield derive(Batch(to_range(batch.to(device), dtype))).values
    except DecodingError as error:
        raise UserError(str(error)) from error


def labelled(batches: Iterable[Tensor], labels: Tensor) -> Iterator[Batch]:
    """Add to the batches of `real_batches` their labels, given as `(N,)` in the order of the data."""
    for batch, own in zip(batches, _order(len(labels)).split(BATCH), strict=True):
        yield Batch(batch, (labels[own].to(batch.device),))


def _order(n: int) -> Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(0))


@contextmanager
def _about(name: str) -> Iterator[None]:
    """Prefix an error with the measure that it is about."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
