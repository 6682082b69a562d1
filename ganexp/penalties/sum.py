"""Several penalties at once."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ganexp.batch import Batch
from ganexp.penalties.base import Discriminator, Penalty


class Sum(Penalty):
    """The sum of several penalties' terms, each with its own weight and laziness, and all of their constraints in turn.

    Args:
        parts: Penalties by name, at least one.
    """

    def __init__(self, *, parts: Mapping[str, Penalty]) -> None:
        if not parts:
            raise ValueError("there is nothing to sum: add penalties by name, as in +penalty@penalty.parts.mine=r1")
        self._parts = dict(parts)
        self.needs_logits = any(part.needs_logits for part in parts.values())
        self.differentiates_gradients = any(part.differentiates_gradients for part in parts.values())
        self.keeps_count = any(part.keeps_count for part in parts.values())

    def parts(self) -> dict[str, Penalty]:
        """Return the penalties by name."""
        return self._parts

    def streams(self) -> list[torch.Generator]:
        return [stream for part in self._parts.values() for stream in part.streams()]

    def begin(self, seed: int, device: torch.device) -> None:
        for part in self._parts.values():
            part.begin(seed, device)

    def term(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor | None:
        """Return the sum of the terms that there are now, a scalar, or None for nothing."""
        terms = [part.term(discriminator, x, fake) for part in self._parts.values()]
        there = [term for term in terms if term is not None]
        return torch.stack(there).sum() if there else None

    def constrain(self, discriminator: nn.Module) -> None:
        for part in self._parts.values():
            part.constrain(discriminator)

    def advance(self) -> None:
        for part in self._parts.values():
            part.advance()

    def state_dict(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self._parts.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, part in self._parts.items():
            part.load_state_dict(state[name])
