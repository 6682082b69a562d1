"""One generated set, measured in several features."""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ganexp.batch import Batch
from ganexp.data.modes import Modes
from ganexp.evaluation.base import Measure
from ganexp.evaluation.evaluator import Evaluator, update
from ganexp.evaluation.features import Features
from ganexp.evaluation.statistics import FeatureBatch
from ganexp.facts import UserError
from ganexp.instruments.scalar import Scalar


class Evaluators:
    """Measures generated sets in one or several features; each sample is generated once, and seen by each of the networks.

    A measure is computed in all features that suit it. In the first of these, its figures have its own keys; in each further
    one, the name of the features is appended, as in `eval/fid/dinov2_vitb14`. So with a single kind of features the keys are
    plain. A measure that looks at no features is computed once.

    Args:
        measures: Measures, by the names that messages call them.
        features: Features, by the names that are appended to keys; the first are used for neighbours and pictures.
        samples: How many generated samples a set has.
        modes: Known modes of the data, for measures that count them.
        against, optional: As for an `Evaluator`.

    Raises:
        UserError: A measure has no value for any of the features or for so few samples, or some features have no measure.
    """

    def __init__(
        self,
        measures: Mapping[str, Measure[Any]],
        features: Mapping[str, Features],
        *,
        samples: int,
        modes: Modes | None = None,
        against: str = "",
        optional: Collection[str] = (),
    ) -> None:
        own: dict[str, dict[str, Measure[Any]]] = {one: {} for one in features}
        self._suffixes: dict[str, dict[str, str]] = {one: {} for one in features}
        for name, measure in measures.items():
            reasons = {one: measure.unsuited(seen, modes) for one, seen in features.items()}
            suited = [one for one, reason in reasons.items() if not reason] or [*features][:1]  # whose evaluator says why
            for one in suited if measure.sees_features(modes) else suited[:1]:
                own[one][name] = measure
                self._suffixes[one] |= dict.fromkeys(measure.keys, "" if one == suited[0] else f"/{one}")
        for one, chosen in own.items():
            if not chosen:
                raise UserError(f"none of the measures has a meaning in the features {one}")
        how: dict[str, Any] = {"samples": samples, "modes": modes, "against": against, "optional": optional}
        self.each = {one: Evaluator(own[one], seen, **how) for one, seen in features.items()}

    @property
    def features(self) -> Features:
        """The first features."""
        return next(iter(self.each.values())).features

    @property
    def looks_at_labels(self) -> bool:
        """Whether figures depend on the classes of samples."""
        return any(measure.looks_at_labels for one in self.each.values() for measure in one.measures.values())

    @property
    def keys(self) -> dict[str, Scalar]:
        """Descriptions of the figures, with the features of each, and its value for real data after `see_reals`."""
        return {key + self._suffixes[one][key]: said for one, by in self.each.items() for key, said in by.keys.items()}

    def see_reals(
        self, batches: Callable[[], Iterable[Batch | Tensor]], n: int, *, folder: Path | None = None, identity: str = ""
    ) -> None:
        """Compute or load the statistics of the real set, as an `Evaluator` does, in one pass for each of the features.

        Raises:
            UserError: The set is too small for a measure, or not finite.
        """
        for one in self.each.values():
            one.see_reals(batches(), n, folder=folder, identity=identity)

    def __call__(self, batches: Iterable[Batch | Tensor]) -> dict[str, float]:
        """Compare a generated set, given batch by batch, and return the figures by key.

        Raises:
            UserError: The set is not finite, has another number of samples than announced, or a measure has no value.
        """
        return self.compare(map(self.extract, batches))

    def extract(self, samples: Batch | Tensor) -> list[FeatureBatch]:
        """Return the features, logits and samples that the measures need from a generated batch, for each of the features.

        Raises:
            UserError: The samples or their features are not finite.
        """
        return [one.extract(samples) for one in self.each.values()]

    @torch.no_grad()
    def compare(self, batches: Iterable[list[FeatureBatch]]) -> dict[str, float]:
        """Compare a generated set, given as `extract` returns it, and return the figures by key.

        Raises:
            UserError: The set has another number of samples than announced, or a measure has no value.
        """
        statistics, count = [one.empty() for one in self.each.values()], 0
        for batch in batches:
            for kept, seen in zip(statistics, batch, strict=True):
                update(kept, [seen])
            count += len(batch[0].features)
        figures: dict[str, float] = {}
        for (one, by), kept in zip(self.each.items(), statistics, strict=True):
            figures |= {key + self._suffixes[one][key]: figure for key, figure in by.figures(kept, count).items()}
        return figures
