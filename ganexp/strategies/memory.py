"""What a strategy remembers of each parameter from one iteration to the next."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ganexp.batch import Gradients
from ganexp.gan import GAN
from ganexp.strategies.simultaneous import Simultaneous


class ParameterMemory:
    """A tensor, or None, for each parameter of both networks, always in the same memory, so that iterations can be recorded."""

    def __init__(self) -> None:
        self.tensors: list[Tensor | None] = []

    def of(self, gan: GAN, parameters: Sequence[Tensor]) -> Gradients:
        """Return what is kept for some parameters, None where nothing is."""
        there = dict(zip(_everything(gan), self.tensors, strict=False))
        return tuple(there.get(p) for p in parameters)

    def before(self, gan: GAN, parameters: Sequence[Tensor]) -> list[Tensor]:
        """Return the kept values of some parameters, and the present ones where none are kept."""
        return [p.detach() if kept is None else kept for p, kept in zip(parameters, self.of(gan, parameters), strict=True)]

    @torch.no_grad()
    def keep(self, gan: GAN, parameters: Sequence[Tensor], tensors: Sequence[Tensor | None]) -> None:
        """Keep copies of tensors, one for each of these parameters, and nothing for the others."""
        given = dict(zip(parameters, tensors, strict=True))
        new = [given.get(p) for p in _everything(gan)]
        if [one is None for one in new] == [one is None for one in self.tensors]:
            torch._foreach_copy_([one for one in self.tensors if one is not None], [one for one in new if one is not None])
        else:
            self.tensors = [None if one is None else one.clone() for one in new]


def _everything(gan: GAN) -> list[Tensor]:
    return [*gan.generator.parameters(), *gan.discriminator.parameters()]


class RuleWithMemory(Simultaneous):
    """A rule that remembers a tensor of each parameter, on the device, so that its iterations can be recorded."""

    keeps_count = False

    def __init__(self) -> None:
        self.past = ParameterMemory()

    def state_dict(self) -> dict[str, Any]:
        return {"kept": self.past.tensors}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.past.tensors = [None if one is None else one.clone() for one in state["kept"]]
