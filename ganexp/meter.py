"""Measurements that stay on the device until a row is written."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class Meter:
    """Running sums of scalars, one per key, brought to the host in a single transfer.

    `add` costs one small kernel and no synchronisation. Sums live in the same tensors for as long as the meter does, so
    that a recorded iteration can go on adding to them. Gradient norms read every gradient once more, so they are measured
    only while `norms_wanted` is set; of them, the last one counts.
    """

    def __init__(self) -> None:
        self.norms_wanted = False
        self.counts: Counter[str] = Counter()
        self._sums: dict[str, Tensor] = {}
        self._norms: dict[str, Tensor] = {}

    @torch.no_grad()
    def add(self, key: str, value: Tensor) -> None:
        """Add one scalar observation."""
        if key not in self._sums:
            self._sums[key] = torch.zeros_like(value)
        self._sums[key].add_(value)
        self.counts[key] += 1

    @torch.no_grad()
    def norm(self, key: str, gradients: Iterable[Tensor | None]) -> None:
        """Keep the Euclidean norm of a network's whole gradient, if norms are wanted now."""
        if not self.norms_wanted:
            return
        norm = torch.nn.utils.get_total_norm([g for g in gradients if g is not None])
        if key not in self._norms:
            self._norms[key] = torch.zeros_like(norm)
        self._norms[key].copy_(norm)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must hold."""
        return {"sums": self._sums, "counts": dict(self.counts)}

    def load_state_dict(self, state: dict[str, Any], device: torch.device) -> None:
        """Go on from what a checkpoint held."""
        self._sums = {key: value.to(device) for key, value in state["sums"].items()}
        self.counts.clear()
        self.counts.update(state["counts"])

    def so_far(self) -> dict[str, Tensor]:
        """Return the mean of each key since the last row, on the device."""
        return {key: self._sums[key] / count for key, count in self.counts.items()}

    def means(self, further: dict[str, Tensor]) -> dict[str, float]:
        """Return the mean of each key since the last call, with the last norms and `further` scalars, and start again."""
        tensors = self.so_far() | self._norms | further
        if not tensors:
            return {}
        values = torch.stack([value.detach().double() for value in tensors.values()]).tolist()
        torch._foreach_zero_(list(self._sums.values()))
        self.counts.clear()
        return dict(zip(tensors, values, strict=True))
