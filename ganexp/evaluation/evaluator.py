"""A real set, and the measures that compare generated ones with it."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.decoding import DecodingError
from ganexp.data.feed import to_range
from ganexp.data.workers import loader
from ganexp.evaluation import statistics
from ganexp.evaluation.comparison import Comparison
from ganexp.evaluation.features import Features
from ganexp.evaluation.library import needed
from ganexp.evaluation.measures import MEASURES
from ganexp.evaluation.modes import Modes
from ganexp.evaluation.parts import Counts, EvaluationError, Part, Seen
from ganexp.instruments.measure import Measure

BATCH = 250

_Parts = Mapping[type[Part], Part]


class Evaluator:
    """Compares generated sets with one real set.

    Args:
        measures: Names in `MEASURES`.
        features: What images are seen by.
        samples: How many generated samples a set has.
        modes: Known modes of the data, for the measure `modes`.

    Raises:
        EvaluationError: A measure cannot be had with these.
    """

    def __init__(self, measures: Iterable[str], features: Features, *, samples: int, modes: Modes | None = None) -> None:
        self.measures = {name: MEASURES[name] for name in measures}
        self.features, self.samples, self.modes = features, samples, modes
        self._real: dict[type[Part], Part] = {}
        self._of_halves: dict[str, float] = {}
        self._half = 0
        for name, measure in self.measures.items():
            with _about(name):
                if measure.part is Counts and modes is None:
                    raise EvaluationError("it needs data whose modes are known, as those of ring, grid and stacked_mnist are")
                if measure.library:
                    needed(measure.library)
                measure.refuse(features, samples, "generated")

    @property
    def keys(self) -> dict[str, Measure]:
        """What the figures are, each with the features that it depends on, and its value for real data once they are seen."""
        found = {}
        for measure in self.measures.values():
            basis = f"{self._seen_by(measure)}{self.samples:,} samples"
            for key, one in measure.keys.items():
                real = self._of_halves.get(key)
                of_real = "" if real is None else f"; real data, two halves of {self._half:,}: {real:.4g}"
                found[key] = replace(one, meaning=f"{one.meaning}, {basis}{of_real}", basis=basis, real=real)
        return found

    @torch.no_grad()
    def see_reals(self, batches: Iterable[Tensor], n: int, *, folder: Path | None = None, identity: str = "") -> None:
        """Keep what the measures need of the real set; from a folder, if it was kept there before.

        Its first samples, as many as a generated set has or a half of it, are compared with as many further ones: figures that
        generated samples cannot be expected to better.

        Args:
            batches: The set, in an order that is random.
            n: Its size.
            folder: Where statistics are kept.
            identity: What tells this set, and how it was prepared, from any other; empty for one that is not to be kept.

        Raises:
            EvaluationError: The set is too small for a measure, or not finite.
        """
        parts = self._parts(looks_at_reals=True)
        self._half = min(self.samples, n // 2)
        for name, measure in self.measures.items():
            if measure.looks_at_reals:
                with _about(name):
                    measure.refuse(self.features, n, "real")
        described = (identity, [*self.measures], self._half, self.modes.name if self.modes else "")
        path = statistics.place(folder, described, self.features, n, parts) if folder and identity else None
        halves = None if path is None else statistics.recall(path, parts)
        if halves is None:
            one, other = self._parts(), self._parts()
            seen = (self._seen(batch, "real") for batch in batches)
            _kept(_passing_on(seen, (one, other), self._half, further=bool(parts)), parts)
            halves = self._halves_compared(one, other)
            if path is not None:
                statistics.keep(path, parts, halves)
        self._real, self._of_halves = parts, halves

    @torch.no_grad()
    def __call__(self, batches: Iterable[Tensor]) -> dict[str, float]:
        """Compare a generated set, given batch by batch, and return the figures by key.

        Raises:
            EvaluationError: It is not finite, has another number of samples than was said, or a measure has no value.
        """
        return self.compare(map(self.see, batches))

    @torch.no_grad()
    def see(self, samples: Tensor) -> Seen:
        """Return what measures look at of a batch of a generated set.

        Raises:
            EvaluationError: It is not finite.
        """
        seen = self._seen(samples, "generated")
        looked_at = any(measure.part.of_samples for measure in self.measures.values())
        return seen if looked_at else replace(seen, samples=samples.new_empty(0))

    @torch.no_grad()
    def compare(self, batches: Iterable[Seen]) -> dict[str, float]:
        """Compare a generated set, given as `see` has seen it, and return the figures by key.

        Raises:
            EvaluationError: It has another number of samples than was said, or a measure has no value.
        """
        parts = self._parts()
        seen = _kept(batches, parts)
        if seen != self.samples:
            raise EvaluationError(f"{self.samples} generated samples were announced, and there are {seen}")
        figures: dict[str, float] = {}
        for measure in self.measures.values():
            figures |= _figures(measure, self._real, parts)
        for key, figure in figures.items():
            if not math.isfinite(figure):
                raise EvaluationError(f"{key} is {figure}")
        return figures

    def _halves_compared(self, one: _Parts, other: _Parts) -> dict[str, float]:
        """Return the figures of a half of the real set against the other, but for measures to which they are too small."""
        figures: dict[str, float] = {}
        for measure in self.measures.values():
            with suppress(EvaluationError):
                measure.refuse(self.features, self._half, "real")
                figures |= _figures(measure, one, other)
        return {key: figure for key, figure in figures.items() if math.isfinite(figure)}

    def _seen_by(self, measure: Comparison) -> str:
        if measure.part is Counts and self.modes:
            return f"{self.modes.name}, "
        features = f"{self.features.name} {self.features.checksum}".strip()
        return f"features: {features}, " if measure.in_features else ""

    def _parts(self, *, looks_at_reals: bool = False) -> dict[type[Part], Part]:
        wanted = {one.part for one in self.measures.values() if one.looks_at_reals or not looks_at_reals}
        assert self.modes or Counts not in wanted
        return {kind: Counts(self.modes) if kind is Counts and self.modes else kind() for kind in wanted}

    def _seen(self, samples: Tensor, of: str) -> Seen:
        if not bool(torch.isfinite(samples).all()):
            raise EvaluationError(f"the {of} samples are not finite")
        features, logits = self.features(samples)
        if not bool(torch.isfinite(features).all()):
            raise EvaluationError(f"the features of the {of} samples are not finite")
        return Seen(samples, features, logits)


def _figures(measure: Comparison, real: _Parts, fake: _Parts) -> dict[str, float]:
    return measure(real.get(measure.part, fake[measure.part]), fake[measure.part])


def _passing_on(batches: Iterable[Seen], halves: tuple[_Parts, _Parts], n: int, *, further: bool) -> Iterator[Seen]:
    """Let two halves keep what they need of the first `n` samples and of the next; `further` goes on after them."""
    begin = 0
    for seen in batches:
        for half, first in zip(halves, (0, n), strict=True):
            own = slice(max(first - begin, 0), max(first + n - begin, 0))
            if own.start < own.stop and own.start < len(seen.features):
                _kept([seen[own]], half)
        begin += len(seen.features)
        yield seen
        if not further and begin >= 2 * n:
            return


def _kept(batches: Iterable[Seen], parts: _Parts) -> int:
    """Let parts keep what they need of a set, and return how many samples it has."""
    n = 0
    for seen in batches:
        for part in parts.values():
            part.update(seen)
        n += len(seen.features)
    return n


def real_batches(
    data: Tensor | MapStyle[Tensor],
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    workers: int = 0,
) -> Iterator[Tensor]:
    """Yield all data once, in a random order that is always the same: images in [-1, 1], points as they are.

    Raises:
        EvaluationError: An image cannot be decoded.
    """
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))  # type: ignore[arg-type]
    batches: Iterable[Tensor]
    if isinstance(data, Tensor):
        batches = (data.index_select(0, part.to(data.device)) for part in order.split(BATCH))
    else:
        batches = loader(data, workers, torch.Generator(), batch_size=BATCH, sampler=order.tolist())
    try:
        for batch in batches:
            yield to_range(batch.to(device), dtype)
    except DecodingError as error:
        raise EvaluationError(str(error)) from error


@contextmanager
def _about(name: str) -> Iterator[None]:
    """Say of an error which measure it is about."""
    try:
        yield
    except EvaluationError as error:
        raise EvaluationError(f"{name}: {error}") from None
