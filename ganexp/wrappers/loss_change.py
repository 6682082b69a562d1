"""A wrapper that updates one network per iteration, the one whose loss has changed more."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import torch
from annotated_types import Gt

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.ranges import checked
from ganexp.wrappers.base import Remembering, handed_on


class LossChange(Remembering):
    """D moves if |ΔL_D / L_D| > λ · |ΔL_G / L_G|, else G (Ouyang et al. 2021); Δ is the change since the iteration before.

    Both losses are computed on one batch before the update, without penalties and terms. D's `d_steps` updates draw batches of
    their own, but the first takes the real samples of that batch; G's `g_steps` updates use the objective of the strategy
    inside. In the first iteration, the strategy inside moves both networks.

    The losses are those of the view of the GAN that this wrapper is given. Around `TopK` and `LatentStep`, they are those of
    all fakes and of latents as they are drawn. Inside `TopK`, L_G is that of the best-scored fakes; inside `LatentStep`, both
    are those of fakes from moved latents.

    Each iteration reads two numbers from the device and waits for them; they take a pass of G and two of D without a graph.
    Departures: the losses are computed on other fakes than the updates, so that any strategy fits; the inequality is multiplied
    by the losses, so that a loss of 0 is no error.

    Args:
        factor: λ; the authors compare several. Above 1, G moves more often.
    """

    constant_steps = False
    needs = ("scores",)

    @checked
    def __init__(self, strategy: Callable[..., None], *, factor: Annotated[float, Gt(0)] = 1.0) -> None:
        super().__init__(strategy)
        self.factor = factor
        self.losses: list[float] = []
        """L_D and L_G of the previous iteration."""

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        first = next(reals)
        reals, before = handed_on(gan, first, reals), self.losses
        losses = losses_of(gan, first)
        if not losses.is_meta:
            self.losses = losses.tolist()
        if before and d_steps and g_steps:
            d_moves = d_should_move(before, self.losses, self.factor)
            d_steps, g_steps = (d_steps, 0) if d_moves else (0, g_steps)
        super().__call__(gan, reals, d_steps=d_steps, g_steps=g_steps)

    def remembered(self) -> dict[str, Any]:
        return {"losses": self.losses}

    def remember(self, state: dict[str, Any]) -> None:
        self.losses = list(state["losses"])


@torch.no_grad()
def losses_of(gan: GAN, x: Batch) -> torch.Tensor:
    """Return L_D and L_G on a real batch and new fakes, `(2,)`, without penalties."""
    real, fake = gan.score_real(x), gan.score_fake(gan.generate(gan.sample()))
    return torch.stack([gan.loss.d_loss(real, fake), gan.loss.g_loss(real, fake)]).double()


def d_should_move(before: list[float], now: list[float], factor: float) -> bool:
    """Return whether D's loss has changed by more than `factor` times as much as G's, each relative to its previous value."""
    (d_before, g_before), (d_now, g_now) = before, now
    return abs(d_now - d_before) * abs(g_before) > factor * abs(g_now - g_before) * abs(d_before)
