"""Several penalties at once."""

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ganexp.batch import Batch, Discriminator
from ganexp.distributed.processes import Processes
from ganexp.penalties.base import Demand, NoPenalty, Penalty, Seen

EXCLUSIVE: dict[frozenset[Demand], str] = {
    frozenset({"gradient norm 0", "gradient norm 1"}): "one pulls D's gradient norm to 0, the other to 1",
    frozenset({"small weights", "gradient norm 1"}): "both are WGAN's constraint, and clipped weights keep the norm from 1",
    frozenset({"small weights", "gradient norm up to 1"}): "both are WGAN's constraint, by clipping and by gradient norms",
}
"""Demands that exclude each other, and the reason.

With zero-centred penalties training converges because D becomes flat (Mescheder et al. 2018), and WGAN's gradient penalties
replace clipping (Gulrajani et al. 2017; Petzka et al. 2018).
"""


class Sum(Penalty):
    """The sum of the terms of several penalties, by name, each with its own weight and laziness; their constraints in turn."""

    def __init__(self, *, parts: Mapping[str, Penalty]) -> None:
        if not parts:
            raise ValueError("there is nothing to sum")
        for (a, first), (b, second) in itertools.combinations(parts.items(), 2):
            for demand, other_demand in itertools.product(first.demands, second.demands):
                if reason := EXCLUSIVE.get(frozenset({demand, other_demand})):
                    raise ValueError(f"{a} and {b} exclude each other ({reason}): leave one of them out")
        self.penalties = dict(parts)
        self.demands = frozenset().union(*(part.demands for part in parts.values()))
        for flag in ("needs_logits", "differentiates_gradients", "reads_scores", "keeps_count", "moves_weights", "gathers"):
            setattr(self, flag, any(getattr(part, flag) for part in parts.values()))

    def turn(self, d_steps: int, g_steps: int) -> Hashable:
        """Return the turns of all, or None if they have none."""
        turns = tuple(part.turn(d_steps, g_steps) for part in self.penalties.values())
        return None if set(turns) == {None} else turns

    def counters(self) -> list[Counter[str]]:
        return [counter for part in self.penalties.values() for counter in part.counters()]

    def streams(self) -> list[torch.Generator]:
        return [stream for part in self.penalties.values() for stream in part.streams()]

    def begin(self, seed: int, device: torch.device) -> None:
        for part in self.penalties.values():
            part.begin(seed, device)

    def share_among(self, processes: Processes) -> None:
        for part in self.penalties.values():
            part.share_among(processes)

    def term(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen | None = None) -> Tensor | None:
        """Return the sum of this update's terms, a scalar, or None if there are none."""
        return _added([part.term(discriminator, x, fake, seen) for part in self.penalties.values()])

    def g_term(self, generator: nn.Module, fake: Batch, generate: Callable[[Batch], Batch]) -> Tensor | None:
        """Return the same for the terms of G's loss."""
        return _added([part.g_term(generator, fake, generate) for part in self.penalties.values()])

    def constrain(self, discriminator: nn.Module) -> None:
        for part in self.penalties.values():
            part.constrain(discriminator)

    def advance(self, real_scores: Tensor, fake_scores: Tensor) -> None:
        for part in self.penalties.values():
            part.advance(real_scores, fake_scores)

    def advance_g(self) -> None:
        for part in self.penalties.values():
            part.advance_g()

    def state_dict(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self.penalties.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, part in self.penalties.items():
            part.load_state_dict(state[name])


def _added(terms: Sequence[Tensor | None]) -> Tensor | None:
    present = [term for term in terms if term is not None]
    return torch.stack(present).sum() if present else None


def total(penalties: Mapping[str, Penalty]) -> Penalty:
    """Return several penalties, by name, as one: `NoPenalty` for none, and a single penalty unchanged."""
    if len(penalties) > 1:
        return Sum(parts=penalties)
    return next(iter(penalties.values()), NoPenalty())
