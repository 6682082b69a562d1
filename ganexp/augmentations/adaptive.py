"""Augmentations that are applied with a probability that adapts to D's overfitting."""

from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor

from ganexp.augmentations.base import Augmentation

Probability = Annotated[float, Ge(0), Le(1)]
Target = Annotated[float, Gt(-1), Lt(1)]
Images = Annotated[int, Ge(1), Le(10**12)]
Every = Annotated[int, Ge(1), Le(10_000)]


class Adaptive(Augmentation):
    """An augmentation that is applied with a probability p, constant or adaptive (Karras et al. 2020, ADA, section 3.1).

    Every `every` updates of D, p changes by (images since the last change) / `images`: up if the mean sign r_t of D's scores
    for these real images is above `target`, down if it is below. This requires a D that scores real images above 0. p begins
    at 0, and all of the state stays on the device. Departure: p is at most 1.

    Args:
        p: A constant probability; None for an adaptive one.
        target: Target of r_t.
        images: Number of real images in which p can move from 0 to 1.
        every: Updates of D from one move of p to the next.
    """

    on_device: ClassVar = {"p": torch.float64, "target": torch.float64}

    def __init__(self, *, p: float | None, target: float, images: int, every: int) -> None:
        self.p: float | Tensor = p or 0.0
        self.reads_signs = p is None
        self.target = target
        self.images = images
        self.every = every

    def begin(self, seed: int, device: torch.device, pack: int = 1) -> None:
        super().begin(seed, device, pack)
        self.p = torch.full((), float(self.p), dtype=torch.float64, device=device)
        self._signs, self._seen, self._updates = (torch.zeros_like(self.p) for _ in range(3))

    @torch.no_grad()
    def observe(self, real_scores: Tensor) -> None:
        assert isinstance(self.p, Tensor)
        if not self.reads_signs:
            return
        self._signs += (real_scores > 0).sum() - (real_scores < 0).sum()
        self._seen += len(real_scores)
        self._updates += 1
        due = self._updates >= self.every
        step = (self._signs / self._seen - self.target).sign() * self._seen * self.pack / self.images
        self.p.add_(torch.where(due, step, 0)).clamp_(0, 1)
        for sum_so_far in (self._signs, self._seen, self._updates):
            sum_so_far.masked_fill_(due, 0)

    def measurements(self) -> dict[str, Tensor]:
        assert isinstance(self.p, Tensor)
        return {"augment/p": self.p}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | self._tensors()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        for name, tensor in self._tensors().items():
            tensor.copy_(state[name])

    def _tensors(self) -> dict[str, Tensor]:
        assert isinstance(self.p, Tensor)
        return {"p": self.p, "signs": self._signs, "seen": self._seen, "updates": self._updates}
