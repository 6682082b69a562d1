"""The contract of a measure."""

from collections.abc import Mapping
from typing import ClassVar, Generic, Literal, TypeVar

from ganexp.data.modes import Modes
from ganexp.evaluation.errors import EvaluationError
from ganexp.evaluation.features import Features
from ganexp.evaluation.statistics import Statistic
from ganexp.facts import Facts
from ganexp.instruments.scalar import Scalar

S = TypeVar("S", bound=Statistic)
ROOM = "ganexp.evaluation.measures"


class Measure(Generic[S]):
    """Compares a generated set of samples with a real one, by a statistic `S` that is kept of each.

    A measure in a file of its own in `ganexp/evaluation/measures/` is chosen by the file's name, any other one by module and
    class, as in `evaluation.measures=[fid,mine.Energy]`. It is constructed without arguments.
    """

    keys: ClassVar[Mapping[str, Scalar]]
    """Its figures, by keys of the rows that begin with `eval/`: what each is, and which of its values is best."""

    keeps: type[S]
    """What it keeps of a set."""

    default_of: Literal["images", "points", ""] = ""
    """The kind of data for which `evaluation.measures=auto` takes it."""

    rank = 100
    """Its place among the measures that `evaluation.measures=auto` takes. The first figure of all ranks runs."""

    looks_at_reals = True
    """Whether the figures depend on the real set."""

    library: ClassVar[str] = ""
    """The package that computes the figures, if that is another one."""

    @property
    def name(self) -> str:
        """What `evaluation.measures` calls it."""
        place, _, file = type(self).__module__.rpartition(".")
        return file if place == ROOM else f"{type(self).__module__}.{type(self).__qualname__}"

    def suits(self, run: Facts) -> bool:
        """Return whether `evaluation.measures=auto` takes it for the data of a run."""
        return self.default_of == ("images" if len(run.shape) == 3 else "points")

    def check(self, run: Facts) -> None:
        """Refuse data that the measure has no value for, before they are read.

        Raises:
            Misfit: The measure has no value for these data.
        """

    def sees_features(self, modes: Modes | None) -> bool:
        """Return whether the figures depend on features, given the known modes of the data."""
        return True

    def refuse(self, features: Features, n: int, of: str) -> None:
        """Refuse `real` or `generated` sets that are too small, and features that cannot be used.

        Raises:
            EvaluationError: The measure has no value, or one that means nothing.
        """
        if n < 2:
            raise EvaluationError(f"it needs at least 2 {of} samples, and there are {n}")

    def statistic(self, features: Features, modes: Modes | None) -> S:
        """Return the statistic of an empty set.

        Raises:
            EvaluationError: The modes of the data are not known, or not by these features.
        """
        return self.keeps()

    def basis(self, features: Features, modes: Modes | None) -> str:
        """Return by what figures are measured, in words: figures of different bases do not compare."""
        return f"features: {features.name} {features.checksum}".rstrip() if self.sees_features(modes) else ""

    def __call__(self, real: S, fake: S) -> dict[str, float]:
        """Return the figures, by key."""
        raise NotImplementedError


def low(meaning: str) -> Scalar:
    """Declare a figure of which the lowest is best."""
    return Scalar(meaning, "last,min")


def high(meaning: str) -> Scalar:
    """Declare a figure of which the highest is best."""
    return Scalar(meaning, "last,max", best="highest")


def refuse_without_neighbours(n: int, k: int, of: str) -> None:
    """Refuse a set in which a sample has no k-th neighbour.

    Raises:
        EvaluationError: The set has at most k samples.
    """
    if n <= k:
        raise EvaluationError(f"it needs more than {k} {of} samples, and there are {n}")
