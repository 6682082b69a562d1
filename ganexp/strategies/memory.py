"""Tensors that a strategy keeps for each parameter from one iteration to the next."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ganexp.batch import Gradients
from ganexp.gan import GAN
from ganexp.strategies.simultaneous import Simultaneous


class ParameterMemory:
    """A tensor, or None, for each parameter of both networks, updated in place so that iterations can be recorded."""

    def __init__(self) -> None:
        self.tensors: list[Tensor | None] = []

    def of(self, gan: GAN, parameters: Sequence[Tensor]) -> Gradients:
        """Return the kept tensors of some parameters, None where there is none."""
        kept = dict(zip(_everything(gan), self.tensors, strict=False))
        return tuple(kept.get(p) for p in parameters)

    def before(self, gan: GAN, parameters: Sequence[Tensor]) -> list[Tensor]:
        """Return the kept values of some parameters, and their current values where there are none."""
        return [p.detach() if kept is None else kept for p, kept in zip(parameters, self.of(gan, parameters), strict=True)]

    @torch.no_grad()
    def keep(self, gan: GAN, parameters: Sequence[Tensor], tensors: Sequence[Tensor | None]) -> None:
        """Keep copies of tensors for these parameters, and none for the others."""
        given = dict(zip(parameters, tensors, strict=True))
        new = [given.get(p) for p in _everything(gan)]
        if [tensor is None for tensor in new] == [tensor is None for tensor in self.tensors]:
            torch._foreach_copy_(
                [tensor for tensor in self.tensors if tensor is not None], [tensor for tensor in new if tensor is not None]
            )
        else:
            self.tensors = [None if tensor is None else tensor.clone() for tensor in new]


def _everything(gan: GAN) -> list[Tensor]:
    return [*gan.generator.parameters(), *gan.discriminator.parameters()]


class RuleWithMemory(Simultaneous):
    """A rule that keeps a tensor for each parameter on the device, so that its iterations can be recorded."""

    keeps_count = False

    def __init__(self) -> None:
        self.past = ParameterMemory()

    def state_dict(self) -> dict[str, Any]:
        return {"kept": self.past.tensors}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.past.tensors = [None if tensor is None else tensor.clone() for tensor in state["kept"]]
