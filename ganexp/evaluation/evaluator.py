"""The evaluation of generated sets: measures compare them with a real set, in one or several features."""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
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


@dataclass
class Space:
    """The measures of the same features, by name, and what they need of the real set."""

    features: Features
    measures: dict[str, Measure[Any]] = field(default_factory=dict)
    suffixes: dict[str, str] = field(default_factory=dict)
    """What is appended to the keys of each measure's figures."""
    real: Statistics = field(default_factory=dict)
    of_halves: dict[str, float] = field(default_factory=dict)
    """The figures of one half of the real set against the other."""


class Evaluator:
    """Compares generated sets with one real set, in one or several features.

    Each batch of samples passes through all networks of features. A measure is computed in all features that suit it. In the
    first of these, its figures have its own keys; in each further one, the name of the features is appended, as in
    `eval/fid/dinov2_vitb14`. A measure without features is computed once.

    Args:
        measures: Measures, by the names that messages use.
        features: One set of features, or several by the names that are appended to keys; the first are used for neighbours and
            pictures.
        samples: The number of samples in a generated set.
        modes: Known modes of the data, for measures that count them.
        against: The real set in words, for descriptions of figures, if it is not the training data.
        optional: The measures that are left out, with a warning, if there are too few samples for them.
    """

    def __init__(
        self,
        measures: Mapping[str, Measure[Any]],
        features: Features | Mapping[str, Features],
        *,
        samples: int,
        modes: Modes | None = None,
        against: str = "",
        optional: Collection[str] = (),
    ) -> None:
        self.samples, self.modes, self.against, self.optional = samples, modes, against, optional
        by_name = features if isinstance(features, Mapping) else {features.name: features}
        self.each = {key: Space(space_features) for key, space_features in by_name.items()}
        self._reals = self._half = 0
        for name, measure in measures.items():
            reasons = {key: measure.unsuited(space.features, modes) for key, space in self.each.items()}
            suited = [key for key, reason in reasons.items() if not reason]
            with _about(name):
                if not suited:
                    raise UserError(next(iter(reasons.values())))
                if measure.library:
                    needed(measure.library)
            for key in suited if measure.sees_features(modes) else suited[:1]:
                self.each[key].measures[name] = measure
                self.each[key].suffixes[name] = "" if key == suited[0] else f"/{key}"
        for key, space in self.each.items():
            if not space.measures:
                raise UserError(f"none of the measures has a meaning in the features {key}")
            self._refuse_few(space, samples, "generated")

    @property
    def features(self) -> Features:
        """The first features."""
        return next(iter(self.each.values())).features

    @property
    def looks_at_labels(self) -> bool:
        """Whether figures depend on the classes of samples."""
        return any(measure.looks_at_labels for space in self.each.values() for measure in space.measures.values())

    @property
    def keys(self) -> dict[str, Scalar]:
        """Descriptions of the figures, with the features of each, and its value for real data after `see_reals`."""
        described = {}
        fewer = min(self.samples, self._reals or self.samples)
        for space in self.each.values():
            for name, measure in space.measures.items():
                against = f" against {self.against}" if self.against and measure.looks_at_reals else ""
                settings = measure.describe_settings(fewer), f"{self.samples:,} samples{against}"
                basis = ", ".join(filter(None, (measure.basis(space.features, self.modes), *settings)))
                note = getattr(space.features, "note", "") if measure.sees_features(self.modes) else ""
                for key, figure in measure.keys.items():
                    real = space.of_halves.get(key)
                    of_real = "" if real is None else f"; real data, two halves of {self._half:,}: {real:.4g}"
                    meaning = f"{figure.meaning}, {basis}{note and f'; {note}'}{of_real}"
                    described[key + space.suffixes[name]] = replace(figure, meaning=meaning, basis=basis, note=note, real=real)
        return described

    @torch.no_grad()
    def see_reals(
        self,
        batches: Iterable[Batch | Tensor] | Callable[[], Iterable[Batch | Tensor]],
        n: int,
        *,
        folder: Path | None = None,
        identity: str = "",
    ) -> None:
        """Compute the statistics of the real set, or load them from a folder.

        The first samples, as many as a generated set has but at most half of the real set, are compared with as many further
        ones: generated samples cannot be expected to have better figures.

        Args:
            batches: The set, in random order, with labels if a measure needs them; or a function that returns it, as each of
                several features takes a pass.
            n: Its size.
            folder: The folder of kept statistics.
            identity: A description of this set and its preparation that no other has; empty if nothing is to be kept.
        """
        self._reals, self._half = n, min(self.samples, n // 2)
        for space in self.each.values():
            self._refuse_few(space, n, "real")
            statistics = self._empty_reals(space)
            names = [
                f"{type(measure).__module__}.{type(measure).__qualname__} {measure.settings}"
                for measure in space.measures.values()
            ]
            described = (identity, names, self._half, self.modes.name if self.modes else "")
            path = cache.place(folder, described, space.features, n, statistics) if folder and identity else None
            recalled = cache.recall(path, statistics) if path else None
            if recalled is None:
                halves = self._read(space, batches() if callable(batches) else batches, statistics)
                recalled = statistics, self._halves_compared(space, *halves)
                if path:
                    cache.keep(path, *recalled)
            self._refuse_constant(space, recalled[0])
            space.real, space.of_halves = recalled

    def __call__(self, batches: Iterable[Batch | Tensor]) -> dict[str, float]:
        """Compare a generated set, given batch by batch, and return the figures by key."""
        return self.compare(map(self.extract, batches))

    @torch.no_grad()
    def extract(self, samples: Batch | Tensor) -> list[FeatureBatch]:
        """Return the features, logits and samples that the measures need from a generated batch, for each of the features."""
        batches = []
        for space in self.each.values():
            batch = self._extracted(space, samples, "generated")
            needs_samples = any(measure.keeps.of_samples for measure in space.measures.values())
            batches.append(batch if needs_samples else replace(batch, samples=batch.samples.new_empty(0), targets=None))
        return batches

    @torch.no_grad()
    def compare(self, batches: Iterable[list[FeatureBatch]]) -> dict[str, float]:
        """Compare a generated set, given as `extract` returns it, and return the figures by key."""
        statistics, count = [self._empty(space) for space in self.each.values()], 0
        for batch in batches:
            for kept, of_space in zip(statistics, batch, strict=True):
                update(kept, of_space)
            count += len(batch[0].features)
        if count != self.samples:
            raise UserError(f"{self.samples} generated samples were announced, and there are {count}")
        figures: dict[str, float] = {}
        for space, kept in zip(self.each.values(), statistics, strict=True):
            for name, measure in space.measures.items():
                for key, figure in self._figures(space, measure, space.real, kept).items():
                    if not math.isfinite(figure):
                        raise UserError(f"{key} is {figure}")
                    figures[key + space.suffixes[name]] = figure
        return figures

    def _refuse_few(self, space: Space, n: int, of: str) -> None:
        """Refuse `real` or `generated` sets that are too small for a measure, or leave the measure out if it is optional."""
        for name, measure in [*space.measures.items()]:
            if of == "real" and not measure.looks_at_reals:
                continue
            try:
                with _about(name):
                    measure.refuse(space.features, n, of)
            except UserError as error:
                if name not in self.optional or len(space.measures) == 1:
                    raise
                log.warning("Samples are not measured by %s.", error)
                del space.measures[name]

    def _refuse_constant(self, space: Space, statistics: Statistics) -> None:
        """Refuse features that are equal for all real samples: no measure has a meaning in them."""
        moments = statistics.get(Moments().kind)
        if not isinstance(moments, Moments) or isinstance(space.features, Raw):  # samples themselves hide nothing
            return
        relative, absolute = CONSTANT
        spread = float(moments.scatter.trace() / max(1, moments.n - 1)) ** 0.5
        if spread <= relative * float(moments.mean.norm()) + absolute:
            raise UserError(
                f"the features of {space.features.name} are the same for all real samples and so judge nothing: choose others"
            )

    def _read(self, space: Space, batches: Iterable[Batch | Tensor], statistics: Statistics) -> tuple[Statistics, Statistics]:
        """Update the statistics of the real set, and return those of its first half and of its second."""
        halves, begin = (self._empty_reals(space), self._empty(space)), 0
        for batch in batches:
            extracted = self._extracted(space, batch, "real")
            update(statistics, extracted)
            for half, first in zip(halves, (0, self._half), strict=True):
                own = slice(max(first - begin, 0), max(first + self._half - begin, 0))
                if own.start < min(own.stop, len(extracted.features)):
                    update(half, extracted[own])
            begin += len(extracted.features)
            if not statistics and begin >= 2 * self._half:
                break
        return halves

    def _halves_compared(self, space: Space, first: Statistics, second: Statistics) -> dict[str, float]:
        """Return the figures of one half of the real set against the other, except for measures that need larger halves."""
        figures: dict[str, float] = {}
        for measure in space.measures.values():
            with suppress(UserError):
                for of in ("real", "generated"):  # one half stands for a generated set
                    measure.refuse(space.features, self._half, of)
                figures |= self._figures(space, measure, first, second)
        return {key: figure for key, figure in figures.items() if math.isfinite(figure)}

    def _empty(self, space: Space) -> Statistics:
        """Return empty statistics for a generated set."""
        statistics = [measure.statistic(space.features, self.modes) for measure in space.measures.values()]
        return {statistic.kind: statistic for statistic in statistics}

    def _empty_reals(self, space: Space) -> Statistics:
        """Return empty statistics for the real set."""
        measures = [measure for measure in space.measures.values() if measure.looks_at_reals]
        statistics: list[Statistic] = [measure.statistic_of_reals(space.features, self.modes) for measure in measures]
        if any(measure.sees_features(self.modes) for measure in measures) and not isinstance(space.features, Raw):
            statistics.append(Moments())  # for `_refuse_constant`
        return {statistic.kind: statistic for statistic in statistics}

    def _figures(self, space: Space, measure: Measure[Any], reals: Statistics, fakes: Statistics) -> dict[str, float]:
        """Return a measure's figures for two sets; a measure without a real set is given the generated set twice."""
        fake = fakes[measure.statistic(space.features, self.modes).kind]
        real = reals[measure.statistic_of_reals(space.features, self.modes).kind] if measure.looks_at_reals else fake
        figures = measure(real, fake)
        if undeclared := figures.keys() - measure.keys.keys():
            keys = ", ".join(sorted(undeclared))
            raise UserError(f"{type(measure).__name__} returned {keys}, without saying in its keys what that is")
        return figures

    def _extracted(self, space: Space, of_set: Batch | Tensor, of: str) -> FeatureBatch:
        batch = Batch.of(of_set)
        samples, (labels, *_) = batch.values, (*batch.conditions, None)
        if not bool(torch.isfinite(samples).all()):
            raise UserError(f"the {of} samples are not finite")
        features, logits = space.features(samples)
        if not bool(torch.isfinite(features).all()):
            raise UserError(f"the features of the {of} samples are not finite")
        return FeatureBatch(samples, features, logits, labels, batch.target)


def update(statistics: Statistics, batch: FeatureBatch) -> None:
    """Add a batch to the statistics of a set."""
    for statistic in statistics.values():
        statistic.update(batch)


def real_batches(
    data: Tensor | MapStyle[Tensor],
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    workers: int = 0,
    derive: Callable[[Batch], Batch] = lambda batch: batch,
) -> Iterator[Tensor]:
    """Yield all data once, in a random order that is always the same: images in [-1, 1], points as they are.

    Args:
        data: The loaded data of a dataset.
        device: The device of the batches.
        dtype: Their type.
        workers: The number of processes that read data that are not in memory.
        derive: `Dataset.derive`, which separates samples from their sources.
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
