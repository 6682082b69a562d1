"""The averaged generator."""

import copy
from typing import Any

import torch
from torch import Tensor, nn


class Average:
    """The contract; by itself, the generator as it is, of which there is no average."""

    def __init__(self, generator: nn.Module) -> None:
        self.generator = generator
        """What samples come from."""

    def update(self) -> None:
        """Follow the generator by one iteration."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state to checkpoint, apart from the generator itself."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint's state."""


class EMA(Average):
    """Exponential moving average of the generator's parameters (Yazıcı et al. 2019), once per iteration.

    average ← d · average + (1 − d) · generator, with d = min(decay, (1 + t) / (10 + t)) after t iterations, so that the
    start is forgotten early. Buffers, such as running batch statistics, are copied.

    Raises:
        ValueError: The decay does not lie in (0, 1).
    """

    def __init__(self, generator: nn.Module, decay: float) -> None:
        if not 0 < decay < 1:
            raise ValueError(f"decay must lie in (0, 1), not {decay}")
        super().__init__(copy.deepcopy(generator).requires_grad_(False).eval())
        self.decay = decay
        self._fast: list[Tensor] = list(generator.parameters())
        self._slow: list[Tensor] = list(self.generator.parameters())
        modules = zip(self.generator.modules(), generator.modules(), strict=True)
        self._buffers = [(slow._buffers, fast._buffers, name) for slow, fast in modules for name in fast._buffers]
        self._updates = torch.zeros((), dtype=torch.float64, device=self._slow[0].device)

    @torch.no_grad()
    def update(self) -> None:
        self._updates += 1
        keep = ((1 + self._updates) / (10 + self._updates)).clamp(max=self.decay)
        weight = (1 - keep).to(self._slow[0].dtype)
        torch._foreach_lerp_(self._slow, self._fast, [weight] * len(self._slow))
        for slow, fast, name in self._buffers:  # by name, since a module may give one of them a new tensor
            _follow(slow, fast[name], name)

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.state_dict(), "updates": int(self._updates)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.load_state_dict(state["generator"])
        self._updates.fill_(state["updates"])


def _follow(slow: dict[str, Tensor | None], fast: Tensor | None, name: str) -> None:
    kept = slow[name]
    if fast is not None and kept is not None and kept.shape == fast.shape:
        kept.copy_(fast)
    else:
        slow[name] = None if fast is None else fast.clone()
