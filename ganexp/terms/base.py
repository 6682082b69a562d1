"""The contract of a term of G's objective."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from ganexp.batch import Batch
from ganexp.facts import Facts, Misfit, Part
from ganexp.instruments.scalar import Scalar


@dataclass(frozen=True, slots=True)
class Generated:
    """The inputs of a term.

    Args:
        fake: The samples that G's objective is formed on, with their graph, source and target.
        generate: Maps sources, under their conditions, to samples as D scores them.
        features: Maps samples, under their conditions, to the outputs of D's layers, `(B, …)` each.
        compared: The same for the samples to compare with: without a graph, unless the objective is a function of D too.
        own: Terms that G itself has computed, by name, `(B,)` each.
    """

    fake: Batch
    generate: Callable[[Batch], Batch]
    features: Callable[[Batch], list[Tensor]]
    compared: Callable[[Batch], list[Tensor]]
    own: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def target(self) -> Tensor:
        """The targets of the samples, `(B, …)`."""
        if self.fake.target is None:
            raise ValueError("a term compares samples with their targets, and these have none: give paired data with sources")
        return self.fake.target


class Term(Part):
    """A term of G's objective beside the loss, weight · value. A subclass defines `__call__` and `measures`."""

    on_device: ClassVar = {"weight": None}

    weight: float | Tensor = 1.0
    """The factor of the value."""

    measures: ClassVar[Scalar] = Scalar("value of a term of G's objective, without its weight")
    """The description of the value in the log."""

    needs_target = False
    """Whether it compares samples with their targets."""

    reads_discriminator = False
    """Whether its value depends on D's weights."""

    own = ""
    """The term's name in G's `own_terms`, if G computes it."""

    def check(self, run: Facts) -> None:
        if self.needs_target and not run.paired:
            raise Misfit("compares samples with their targets, and these data have none", "targets", term=[])
        if self.reads_discriminator and not run.features:
            raise Misfit("looks at D's features, and this discriminator does not return any", "features", term=[])
        if self.own and self.own not in run.own_terms:
            raise Misfit(f"is what a generator itself computes, and this one has no {self.own}", self.own, term=[])

    def __call__(self, generated: Generated) -> Tensor:
        """Return one value for each sample, `(B,)`, whose mean is the term's value, or a scalar."""
        raise NotImplementedError
