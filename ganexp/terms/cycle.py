"""Terms of two translators in one generator, between two sets of images without pairs (Zhu et al. 2017)."""

from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch
from ganexp.facts import Facts, Misfit
from ganexp.instruments.scalar import Scalar
from ganexp.ranges import checked
from ganexp.terms.base import Generated, Term


class _TwoWay(Term):
    """A term that applies a generator of both directions again: (a, b) is the source, (F(b), G(a)) the sample."""

    def check(self, run: Facts) -> None:
        if not run.two_way:
            raise Misfit("compares two directions, and this generator has one", "both directions", term=[])


class Cycle(_TwoWay):
    """weight · mean |(F(G(a)), G(F(b))) − (a, b)| over samples and pixels (Zhu et al. 2017, equation 2, where λ = 10).

    Departure: the mean over both directions, where the paper has the sum, as the loss of `TwoWayDiscriminator` is, so that the
    proportion of both is the paper's. `LSGAN` halves squares, and the authors' code does not: their weight of 10 is 5 here.
    """

    measures: ClassVar = Scalar(
        "mean absolute difference between sources and what comes back, in units of [-1, 1], over the interval", best="lowest"
    )

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 10.0) -> None:
        self.weight: float | Tensor = weight

    def __call__(self, generated: Generated) -> Tensor:
        back = generated.generate(Batch(generated.fake.values))
        return (back.values - source_of(generated)).abs().flatten(1).mean(1)


class Identity(_TwoWay):
    """weight · mean |(F(a), G(b)) − (a, b)| over samples and pixels (Zhu et al. 2017, section 5.2, with 0.5 λ).

    Departure: as of `Cycle`; beside `LSGAN`, the authors' weight of 5 is 2.5 here.
    """

    measures: ClassVar = Scalar(
        "mean absolute difference between images and what the other direction makes of them, over the interval", best="lowest"
    )

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 5.0) -> None:
        self.weight: float | Tensor = weight

    def __call__(self, generated: Generated) -> Tensor:
        source = source_of(generated)
        a, b = source.chunk(2, 1)
        other = generated.generate(Batch(torch.cat([b, a], 1)))
        return (other.values - source).abs().flatten(1).mean(1)


def source_of(generated: Generated) -> Tensor:
    """Return the stacks that samples are made from, `(B, 2C, …)`."""
    if generated.fake.source is None:
        raise ValueError("a term translates sources, and these samples have none: give data with sources")
    return generated.fake.source
