"""The contract of a measure."""

from collections.abc import Collection, Mapping
from typing import ClassVar, Generic, Literal, TypeVar

from ganexp.data.modes import Modes
from ganexp.evaluation.features import Features
from ganexp.evaluation.statistics import Statistic
from ganexp.facts import Facts, Misfit, UserError
from ganexp.instruments.scalar import Scalar

S = TypeVar("S", bound=Statistic)


class Measure(Generic[S]):
    """Compares a generated set of samples with a real one by a statistic `S` of each.

    A measure is one class, and one YAML in `conf/measure/` or in the folder of a `--config-dir`; `measure=[fid,kid]` names
    YAMLs. Keyword arguments of the class are its settings, as in `measure.kid.subsets=50`. Settings that figures depend on are
    public attributes: they appear in the description of each figure, and figures with different settings are never compared,
    nor taken from the cache.

    `measure=auto` takes the measures of these YAMLs that suit the run (`suits`), in the order of their `rank`. So a measure of
    another package takes part with a YAML and `default_of`.
    """

    keys: ClassVar[Mapping[str, Scalar]]
    """Descriptions of its figures, by their keys in rows, which begin with `eval/`."""

    keeps: type[S]
    """The statistic of a set that it needs."""

    default_of: Literal["images", "points", ""] = ""
    """The kind of data for which `measure=auto` chooses it."""

    rank = 100
    """Its position among the measures that `measure=auto` chooses. Runs are ranked by the first measure."""

    looks_at_reals = True
    """Whether figures depend on the real set."""

    looks_at_labels = False
    """Whether figures depend on the classes of samples."""

    only_in: ClassVar[Collection[str]] = ()
    """The `evaluation.features` of which it needs one; empty for any features."""

    library: ClassVar[str] = ""
    """The external package that computes the figures; empty if there is none."""

    max_samples: int = 0
    """The maximum number of samples of a set that it uses; 0 for no bound."""

    @property
    def settings(self) -> str:
        """Its settings, in words: "subsets 10, subset_size 1000"."""
        return ", ".join(f"{name} {value}" for name, value in vars(self).items() if not name.startswith("_"))

    def describe_settings(self, samples: int) -> str:
        """Return its settings, in words, for so many samples in the smaller set."""
        return self.settings

    def suits(self, run: Facts) -> bool:
        """Return whether `measure=auto` chooses it for the data of a run."""
        return self.default_of == ("images" if len(run.shape) == 3 else "points")

    def check(self, run: Facts) -> None:
        """Refuse data for which the measure is not defined, before they are read."""
        if self.looks_at_labels and not run.conditional:
            raise Misfit("needs samples that are generated under class labels, and these have none", conditional=True)

    def sees_features(self, modes: Modes | None) -> bool:
        """Return whether the figures depend on features, given the known modes of the data."""
        return not self.keeps.of_samples

    def unsuited(self, features: Features, modes: Modes | None) -> str:
        """Return why these features do not suit the measure, as in "it needs features with classes"; empty if they do."""
        if self.keeps.of_logits and not features.classes:
            return f"it needs features with classes, and {features.name} have none"
        return ""

    def least(self, features: Features, of: str) -> int:
        """Return the least number of `real` or `generated` samples for which its figures have a meaning."""
        return 2

    def refuse(self, features: Features, n: int, of: str) -> None:
        """Refuse `real` or `generated` sets that are too small."""
        least, used = self.least(features, of), min(n, self.max_samples or n)
        if used < least:
            raise UserError(f"it needs at least {least:,} {of} samples, and there are {used:,}")

    def statistic(self, features: Features, modes: Modes | None) -> S:
        """Return an empty statistic for a generated set."""
        return self.keeps(self.max_samples) if self.max_samples else self.keeps()  # type: ignore[call-arg]

    def statistic_of_reals(self, features: Features, modes: Modes | None) -> S:
        """Return an empty statistic for the real set."""
        return self.statistic(features, modes)

    def basis(self, features: Features, modes: Modes | None) -> str:
        """Return the features of the figures, in words: figures with different bases do not compare."""
        return f"features: {features.name} {features.checksum}".rstrip() if self.sees_features(modes) else ""

    def __call__(self, real: S, fake: S) -> dict[str, float]:
        """Return the figures, by key."""
        raise NotImplementedError


def low(meaning: str) -> Scalar:
    """Declare a figure whose lowest value is best."""
    return Scalar(meaning, "last,min")


def high(meaning: str) -> Scalar:
    """Declare a figure whose highest value is best."""
    return Scalar(meaning, "last,max", best="highest")
