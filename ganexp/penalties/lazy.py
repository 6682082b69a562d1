"""Penalties that need not be computed at every update."""

from typing import Annotated, Any

from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch, Discriminator
from ganexp.penalties.base import Penalty, Seen
from ganexp.ranges import checked


class Lazy(Penalty):
    """A penalty that only every k-th update of D has, with k times the weight (Karras et al. 2020, StyleGAN2, section 3.1).

    The first update has it. The look-ahead steps of extragradient and unrolled have it if the update that they prepare has it.
    `loss/penalty` is the mean of the terms as they were added, over the updates that had one. Departures: the term is added
    to D's loss, whereas the paper takes a separate step, and Adam's settings are not adjusted.

    Args:
        weight: What the mean of the samples' values is multiplied by, without the factor for laziness.
        every: k, in updates of D. If above 1, the host counts updates, and iterations are not recorded as CUDA graphs.
    """

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 10.0, every: Annotated[int, Ge(1)] = 1) -> None:
        self.weight: float | Tensor = weight
        self.every = every
        self.keeps_count = every > 1
        self.updates = 0

    def term(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen | None = None) -> Tensor | None:
        """Return the weighted mean, a scalar, or None if it is not this update's turn."""
        if self.updates % self.every:
            return None
        term = super().term(discriminator, x, fake, seen)
        return term if term is None or self.every == 1 else self.every * term

    def advance(self, real_scores: Tensor, fake_scores: Tensor) -> None:
        self.updates += 1

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | ({"updates": self.updates} if self.keeps_count else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.updates = state["updates"] if self.keeps_count else 0
