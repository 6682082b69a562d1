"""Terms that compare samples with their targets pixel by pixel."""

from typing import Annotated, ClassVar

from annotated_types import Ge
from torch import Tensor

from ganexp.instruments.scalar import Scalar
from ganexp.ranges import checked
from ganexp.terms.base import Generated, Term


class L1(Term):
    """weight · mean |G(s) − t| over samples and pixels (Isola et al. 2017, equation 3, where the weight is λ = 100)."""

    needs_target = True
    measures: ClassVar = Scalar(
        "mean absolute difference between outputs and targets, in units of [-1, 1], over the interval", best="lowest"
    )

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 100.0) -> None:
        self.weight: float | Tensor = weight

    def __call__(self, generated: Generated) -> Tensor:
        return (generated.fake.values - generated.target).abs().flatten(1).mean(1)


class L2(Term):
    """weight · mean (G(s) − t)² over samples and pixels."""

    needs_target = True
    measures: ClassVar = Scalar(
        "mean squared difference between outputs and targets, in units of [-1, 1], over the interval", best="lowest"
    )

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 100.0) -> None:
        self.weight: float | Tensor = weight

    def __call__(self, generated: Generated) -> Tensor:
        return (generated.fake.values - generated.target).square().flatten(1).mean(1)
