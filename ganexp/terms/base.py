"""The contract of a term of G's objective."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ganexp.batch import Batch
from ganexp.facts import Facts, Misfit, Part
from ganexp.instruments.scalar import Scalar


@dataclass(frozen=True, slots=True)
class Generated:
    """What a term may look at.

    Args:
        fake: The samples that G's objective is formed on, with their graph, source and target.
        generate: Maps sources, under their conditions, to samples as D scores them.
    """

    fake: Batch
    generate: Callable[[Batch], Batch]


class Term(Part):
    """A term of G's objective beside the loss, weight · value. A subclass defines `__call__` and `measures`."""

    on_device: ClassVar = {"weight": None}

    weight: float | Tensor = 1.0
    """What the value is multiplied by."""

    measures: ClassVar[Scalar] = Scalar("value of a term of G's objective, without its weight")
    """What the value is, for the log."""

    needs_target = False
    """Whether it compares samples with their targets."""

    reads_discriminator = False
    """Whether its value depends on D's weights."""

    def check(self, run: Facts) -> None:
        if self.needs_target and not run.paired:
            raise Misfit("compares samples with their targets, and these data have none", "targets", term=[])

    def __call__(self, made: Generated) -> Tensor:
        """Return one value for each sample, `(B,)`, whose mean is the term's value, or a scalar."""
        raise NotImplementedError
