"""Measurements that stay on the device until a row is written."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class Meter:
    """Running sums of scalars, one per key, brought to the host in a single transfer.

    `add` costs one small kernel and no synchronisation. Gradient norms read every gradient once more, so they are
    measured only while `norms_wanted` is set, which the trainer does for the last iteration of an interval.
    """

    def __init__(self) -> None:
        self.norms_wanted = False
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}

    @torch.no_grad()
    def add(self, key: str, value: Tensor) -> None:
        """Add one scalar observation."""
        if key in self._sums:
            self._sums[key].add_(value.detach())
            self._counts[key] += 1
        else:
            self._sums[key] = value.detach().clone()
            self._counts[key] = 1

    def norm(self, key: str, gradients: Iterable[Tensor | None]) -> None:
        """Add the Euclidean norm of a network's whole gradient, if norms are wanted now."""
        if self.norms_wanted:
            self.add(key, torch.nn.utils.get_total_norm([g for g in gradients if g is not None]))

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must hold."""
        return {"sums": self._sums, "counts": self._counts}

    def load_state_dict(self, state: dict[str, Any], device: torch.device) -> None:
        """Go on from what a checkpoint held."""
        self._sums = {key: value.to(device) for key, value in state["sums"].items()}
        self._counts = dict(state["counts"])

    def means(self, further: dict[str, Tensor]) -> dict[str, float]:
        """Return the mean of each key since the last call, with `further` scalars, and start again."""
        tensors = {key: total / self._counts[key] for key, total in self._sums.items()} | further
        self._sums.clear()
        self._counts.clear()
        if not tensors:
            return {}
        values = torch.stack([value.detach().double() for value in tensors.values()]).tolist()
        return dict(zip(tensors, values, strict=True))
