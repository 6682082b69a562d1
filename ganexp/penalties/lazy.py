"""Lazy penalties, which are computed at every k-th update."""

from collections import Counter
from collections.abc import Hashable
from typing import Annotated, Any

from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch, Discriminator
from ganexp.penalties.base import Penalty, Seen
from ganexp.ranges import checked


class Lazy(Penalty):
    """A penalty in every k-th update of D, with k times the weight (Karras et al. 2020, StyleGAN2, section 3.1).

    It begins with the first update. The look-ahead steps of extragradient and unrolled have it if their update has it.
    `loss/penalty` is the mean of the added terms over the updates that have one. Departures: the term is added to D's loss,
    whereas the paper takes a separate step, and Adam's settings are not adjusted.

    Args:
        weight: The factor of the mean of the samples' values, without the factor k.
        every: k, in updates of D.
    """

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 10.0, every: Annotated[int, Ge(1)] = 1) -> None:
        self.weight: float | Tensor = weight
        self.every = every
        self.passed = Counter(updates=0)

    def term(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen | None = None) -> Tensor | None:
        """Return the weighted mean, a scalar, or None if this update has no penalty."""
        if self.passed["updates"] % self.every:
            return None
        term = super().term(discriminator, x, fake, seen)
        return term if term is None or self.every == 1 else self.every * term

    def advance(self, real_scores: Tensor, fake_scores: Tensor) -> None:
        self.passed["updates"] += 1

    def turn(self, d_steps: int, g_steps: int) -> Hashable:
        """Return the number of an iteration's updates before the first with the penalty; `d_steps + 1` if none has it.

        D's objective may be formed once more after the last update, as for the next one.
        """
        return None if self.every == 1 else min(-self.passed["updates"] % self.every, d_steps + 1)

    def counters(self) -> list[Counter[str]]:
        return [self.passed]

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | ({} if self.every == 1 else dict(self.passed))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.passed["updates"] = 0 if self.every == 1 else state["updates"]
