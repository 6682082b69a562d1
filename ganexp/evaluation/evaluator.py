"""A real set, and the measures that compare generated ones with it."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
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
from ganexp.evaluation.measures import MEASURES
from ganexp.evaluation.modes import Modes
from ganexp.evaluation.parts import Counts, EvaluationError, Part, Seen
from ganexp.instruments.measure import Measure

BATCH = 250


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
        for name, measure in self.measures.items():
            with _about(name):
                if measure.part is Counts and modes is None:
                    raise EvaluationError("it needs data whose modes are known, as those of ring, grid and stacked_mnist are")
                measure.refuse(features, samples, "generated")

    @property
    def keys(self) -> dict[str, Measure]:
        """What the figures are, each with the features that it depends on."""
        found = {}
        for measure in self.measures.values():
            basis = f"{self._seen_by(measure)}{self.samples:,} samples"
            for key, one in measure.keys.items():
                found[key] = replace(one, meaning=f"{one.meaning}, {basis}", basis=basis)
        return found

    @torch.no_grad()
    def see_reals(self, batches: Iterable[Tensor], n: int, *, folder: Path | None = None, identity: str = "") -> None:
        """Keep what the measures need of the real set; from a folder, if it was kept there before.

        Args:
            batches: The set, in an order that is random.
            n: Its size.
            folder: Where statistics are kept.
            identity: What tells this set, and how it was prepared, from any other; empty for one that is not to be kept.

        Raises:
            EvaluationError: The set is too small for a measure, or not finite.
        """
        parts = self._parts(looks_at_reals=True)
        if not parts:
            return
        for name, measure in self.measures.items():
            if measure.looks_at_reals:
                with _about(name):
                    measure.refuse(self.features, n, "real")
        path = statistics.place(folder, identity, self.features, n, parts) if folder and identity else None
        if path is None or not statistics.recall(path, parts):
            _kept((self._seen(batch, "real") for batch in batches), parts)
            if path is not None:
                statistics.keep(path, parts)
        self._real = parts

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
            fake = parts[measure.part]
            figures |= measure(self._real.get(measure.part, fake), fake)
        for key, figure in figures.items():
            if not math.isfinite(figure):
                raise EvaluationError(f"{key} is {figure}")
        return figures

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


def _kept(batches: Iterable[Seen], parts: Mapping[type[Part], Part]) -> int:
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
