"""A wrapper that pulls both networks back towards their initial weights at every step, with a decreasing weight."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ganexp.batch import Batch, Gradients
from ganexp.gan import GAN
from ganexp.wrappers.base import Remembering, seen


class Anchoring(Remembering):
    """z ← z + (z₀ − z)/(k + 2) − ηv at every step of iteration k = 0, 1, …; z₀ are the weights before the first iteration.

    Around `extragradient`, whose two steps both begin at z, this is the extra anchored gradient algorithm of Yoon & Ryu 2021 at
    a constant rate, which on convex-concave games converges in O(1/k). Where a network makes several steps in an iteration,
    each of them is pulled back. The optimisers' states do not change.
    """

    moves_weights = True
    in_turns = True

    def __init__(self, strategy: Callable[..., None]) -> None:
        super().__init__(strategy)
        self.iterations = torch.zeros((), dtype=torch.float64)  # on the device from the first iteration on
        self.start: list[Tensor] = []

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        networks = gan.generator, gan.discriminator
        if not self.start:
            self.start = [p.detach().clone() for network in networks for p in network.parameters()]
        first, count = self.start[0], len([*gan.generator.parameters()])
        self.iterations = self.iterations.to(first.device)
        share = (1 / (self.iterations + 2)).to(first.dtype)
        move_g = partial(self.move, gan.move_g, gan.generator, self.start[:count], share)
        move_d = partial(self.move, gan.move_d, gan.discriminator, self.start[count:], share)
        super().__call__(seen(gan, move_d=move_d, move_g=move_g), reals, d_steps=d_steps, g_steps=g_steps)
        self.iterations.add_(1)

    @torch.no_grad()
    def move(
        self,
        step: Callable[[Gradients], Gradients],
        network: nn.Module,
        start: list[Tensor],
        share: Tensor,
        along: Gradients,
    ) -> Gradients:
        """Pull a network back, and then let it step along gradients that were taken before."""
        torch._foreach_lerp_([*network.parameters()], start, [share] * len(start))
        return step(along)

    def remembered(self) -> dict[str, Any]:
        count = 0 if self.iterations.is_meta else int(self.iterations)  # a dry iteration does not count
        return {"iterations": count, "start": self.start}

    def remember(self, state: dict[str, Any]) -> None:
        self.iterations.fill_(state["iterations"])
        self.start = [tensor.clone() for tensor in state["start"]]
