"""Measurements of updates, which stay on the device until a row is written."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ganexp.batch import Gradients, Objective, scores_of


class Meter:
    """Counts of updates, running sums of scalars, and the last update's scores and gradients of each network.

    Recording costs one small kernel per scalar and no synchronisation: a row's values are transferred to the host together.
    Sums stay in the same tensors, so that a recorded iteration keeps adding to them. Gradients are kept by reference until
    their norms are read, and only on request, since memory that is not freed before the next iteration slows it down.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        self.keeps_gradients = False
        self.updates: Counter[str] = Counter(d=0, g=0)
        self.counts: Counter[str] = Counter()
        self.last_real: Tensor | None = None
        self.last_fake: Tensor | None = None
        self._sums: dict[str, Tensor] = {}
        self._gradients: dict[str, Gradients] = {}

    def begin(self, *, keep_gradients: bool) -> None:
        """Begin an iteration, and drop the gradients of earlier ones."""
        # kept gradients make the next iteration of small networks 3 to 6 % slower, since new ones need memory of their own
        self.keeps_gradients, self._gradients = keep_gradients, {}

    @property
    def held(self) -> tuple[Tensor | None, Tensor | None, dict[str, Gradients]]:
        """The last scores and gradients, by reference; iterations that are recorded put theirs back when they are replayed."""
        return self.last_real, self.last_fake, self._gradients

    @held.setter
    def held(self, held: tuple[Tensor | None, Tensor | None, dict[str, Gradients]]) -> None:
        self.last_real, self.last_fake, self._gradients = held

    def record_d(self, d: Objective, gradients: Gradients) -> None:
        """Record an update of the discriminator, with its scores."""
        assert d.real_scores is not None
        assert d.fake_scores is not None
        self.last_real, fake = d.real_scores.detach(), d.fake_scores.detach()
        observed = {"loss/d": d.loss, "score/real": scores_of(self.last_real).mean(), "score/fake": scores_of(fake).mean()}
        self.record("d", observed if d.penalty is None else observed | {"loss/penalty": d.penalty}, gradients)

    def record_g(self, g: Objective, gradients: Gradients) -> None:
        """Record an update of the generator, with the scores of its fakes."""
        assert g.fake_scores is not None
        self.last_fake = g.fake_scores.detach()
        observed = {"loss/g": g.loss} if g.penalty is None else {"loss/g": g.loss, "loss/g_penalty": g.penalty}
        self.record("g", observed | _terms(g.values) if g.values else observed, gradients)

    def record_terms(self, values: Mapping[str, Tensor], gradients: Gradients) -> None:
        """Record an update of the generator by its terms alone."""
        self.record("g", _terms(values), gradients)

    def record(self, player: str, values: Mapping[str, Tensor], gradients: Gradients) -> None:
        """Record an update of `d` or `g`, with some scalars."""
        self.updates[player] += 1
        self.add(values)
        if self.keeps_gradients:
            self._gradients[f"grad_norm/{player}"] = gradients

    def add(self, values: Mapping[str, Tensor]) -> None:
        """Add one observation of each of some scalars."""
        sums, observed = [], []
        for key, value in values.items():
            observed.append(value.detach())  # takes less time than to enter and leave no_grad()
            if key not in self._sums:
                self._sums[key] = torch.zeros_like(observed[-1])
            sums.append(self._sums[key])
            self.counts[key] += 1
        torch._foreach_add_(sums, observed)

    def so_far(self) -> dict[str, Tensor]:
        """Return the mean of each key since the last row, on the device."""
        return {key: self._sums[key] / count for key, count in self.counts.items()}

    @torch.no_grad()
    def read(self, further: dict[str, Tensor]) -> dict[str, float]:
        """Return the means since the last call, the norms of the last gradients and `further` scalars, and reset the sums."""
        norms = {
            key: torch.nn.utils.get_total_norm([gradient for gradient in gradients if gradient is not None])
            for key, gradients in self._gradients.items()
        }
        tensors = self.so_far() | norms | further
        if not tensors:
            return {}
        values = torch.stack([value.detach().double() for value in tensors.values()]).tolist()
        torch._foreach_zero_(list(self._sums.values()))
        self.counts.clear()
        return dict(zip(tensors, values, strict=True))

    def state_dict(self) -> dict[str, Any]:
        """Return the state to checkpoint."""
        return {
            "updates": dict(self.updates),
            "keys": [*self._sums],
            "sums": [*self._sums.values()],
            "counts": [self.counts[key] for key in self._sums],
            "last_real": [] if self.last_real is None else [self.last_real],
            "last_fake": [] if self.last_fake is None else [self.last_fake],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint's state."""
        self.updates = Counter(state["updates"])
        self._sums, self.counts = {}, Counter()
        for key, total, count in zip(state["keys"], state["sums"], state["counts"], strict=False):
            self._sums[key] = torch.as_tensor(total).to(self.device, copy=True)
            self.counts += Counter({key: count})  # += leaves out keys that were not counted since the last row
        self.last_real, self.last_fake = (
            state[name][0].to(self.device, copy=True) if state[name] else None for name in ("last_real", "last_fake")
        )


def _terms(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"terms/{name}": value for name, value in values.items()}
