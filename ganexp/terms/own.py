"""Terms that G computes itself, beside its samples: see `own_terms` in docs/library.md."""

from typing import Annotated, ClassVar

from annotated_types import Ge
from torch import Tensor

from ganexp.instruments.scalar import Scalar
from ganexp.ranges import checked
from ganexp.terms.base import Generated, Term


class Commitment(Term):
    """weight · mean (z − e)², z what the encoder made and e its code, a constant (after van den Oord et al. 2017, equation 3).

    The mean is over the numbers of a code too, as in the authors' code. The equation sums over them: β there is the weight
    divided by their number, `generator.length`.
    """

    own = "commitment"
    measures: ClassVar = Scalar(
        "mean squared distance between what the encoder makes and its code, over the interval", best="lowest"
    )

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 0.25) -> None:
        self.weight: float | Tensor = weight

    def __call__(self, generated: Generated) -> Tensor:
        return generated.own[self.own]


class KL(Term):
    """weight · mean KL(q(z|s) ‖ N(0, 1)), in nats for each sample (Kingma & Welling 2014, equation 10)."""

    own = "kl"
    measures: ClassVar = Scalar(
        "mean divergence of the encoder's distribution from the prior, in nats, over the interval", best="lowest"
    )

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 1.0) -> None:
        self.weight: float | Tensor = weight

    def __call__(self, generated: Generated) -> Tensor:
        return generated.own[self.own]
