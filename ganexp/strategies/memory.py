"""What a strategy remembers of each parameter from one iteration to the next."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ganexp.batch import Gradients
from ganexp.gan import GAN


class ParameterMemory:
    """A tensor, or None, for each parameter of both networks, always in the same memory, where a recorded iteration finds it.

    Args:
        what: It in words, for messages.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.tensors: list[Tensor | None] = []

    def of(self, gan: GAN, parameters: Sequence[Tensor]) -> Gradients:
        """Return what is kept of some parameters: None where that is nothing."""
        there = dict(zip(_everything(gan), self.tensors, strict=False))
        return tuple(there.get(p) for p in parameters)

    @torch.no_grad()
    def keep(self, gan: GAN, parameters: Sequence[Tensor], tensors: Sequence[Tensor | None]) -> None:
        """Keep copies of tensors, one for each of these parameters, and nothing of the others."""
        given = dict(zip(parameters, tensors, strict=True))
        new = [given.get(p) for p in _everything(gan)]
        if [one is None for one in new] == [one is None for one in self.tensors]:
            torch._foreach_copy_([one for one in self.tensors if one is not None], [one for one in new if one is not None])
        else:
            self.tensors = [None if one is None else one.clone() for one in new]

    def state_dict(self) -> dict[str, Any]:
        """Return the state to checkpoint."""
        return {"kept": self.tensors}

    def check_state_dict(self, state: dict[str, Any], gan: GAN) -> None:
        """Refuse a state that is not of networks like these.

        Raises:
            ValueError: It is not one tensor, or None, for each parameter, of its shape and type, and finite.
        """
        kept, own = state["kept"], _everything(gan)
        if not isinstance(kept, list) or (kept and len(kept) != len(own)):
            raise ValueError(f"{self.what} should be one for each parameter")
        for copied, parameter in zip(kept, own, strict=False):
            if copied is None:
                continue
            if not isinstance(copied, Tensor) or (copied.shape, copied.dtype) != (parameter.shape, parameter.dtype):
                raise ValueError(f"{self.what} should have the shapes and types of the parameters")
            if not copied.isfinite().all():
                raise ValueError(f"{self.what} should be finite")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint's state."""
        self.tensors = [None if one is None else one.clone() for one in state["kept"]]


def _everything(gan: GAN) -> list[Tensor]:
    return [*gan.generator.parameters(), *gan.discriminator.parameters()]
