"""The contract of a measure."""

from typing import ClassVar

from torch import Tensor

from ganexp.evaluation.features import Features
from ganexp.evaluation.parts import EvaluationError, KeptFeatures, KeptLogits, Part
from ganexp.instruments.measure import Measure


def low(meaning: str) -> Measure:
    """Declare a figure of which the lowest is best."""
    return Measure(meaning, "last,min")


def high(meaning: str) -> Measure:
    """Declare a figure of which the highest is best."""
    return Measure(meaning, "last,max", best="highest")


class Comparison:
    """The contract: a function of what was kept of a real set and of a generated one.

    `keys` declares the figures; `part` is what it needs of each set.
    """

    keys: ClassVar[dict[str, Measure]]
    part: ClassVar[type[Part]]
    in_features = True
    """Whether figures depend on the features."""
    looks_at_reals = True
    library: ClassVar[str] = ""
    """The package that computes it, if it is one of an extra."""

    def refuse(self, features: Features, n: int, of: str) -> None:
        """Refuse a set that is too small, or features that cannot be used.

        Raises:
            EvaluationError: The measure has no value, or one that means nothing.
        """
        if n < 2:
            raise EvaluationError(f"it needs at least 2 {of} samples, and there are {n}")

    def __call__(self, real: Part, fake: Part) -> dict[str, float]:
        """Return the figures, by key."""
        raise NotImplementedError


def rows_of(part: Part) -> Tensor:
    """Return the features or logits that were kept."""
    assert isinstance(part, (KeptFeatures, KeptLogits))
    return part.rows


def refuse_without_neighbours(n: int, k: int, of: str) -> None:
    """Refuse a set in which a sample has no k-th neighbour."""
    if n <= k:
        raise EvaluationError(f"it needs more than {k} {of} samples, and there are {n}")
