"""Lookahead: a wrapper that averages both networks with slow copies of their weights every k iterations."""

from collections.abc import Callable, Hashable, Iterator
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.ranges import checked
from ganexp.wrappers.base import Counting


class Lookahead(Counting):
    """Lookahead-minmax (Chavdarova et al. 2021, algorithm 1), as a strategy around a strategy.

    Every `every` iterations *both* networks move to slow + alpha · (fast − slow), and the slow copies are set to the result.
    The optimisers' states do not change. One around another is the nested lookahead of the paper: after an average of the
    outer one, the next round of the inner one begins at that average.

    Args:
        every: Iterations between two averages.
        alpha: Weight of the fast weights.
    """

    moves_weights = True
    in_turns = True

    on_device: ClassVar = {"alpha": None}

    @checked
    def __init__(
        self,
        strategy: Callable[..., None],
        *,
        every: Annotated[int, Ge(1)] = 5,
        alpha: Annotated[float, Gt(0), Le(1)] = 0.5,
    ) -> None:
        super().__init__(strategy)
        self.every = every
        self.alpha: float | Tensor = alpha
        self.slow: list[Tensor] = []

    @torch.no_grad()
    def _begin(self, fast: list[Tensor]) -> None:
        if self.slow:
            torch._foreach_copy_(self.slow, fast)
        else:
            self.slow = [p.clone() for p in fast]

    @torch.no_grad()
    def _pull(self, fast: list[Tensor]) -> None:
        shares: Any = [self.alpha] * len(fast) if isinstance(self.alpha, Tensor) else self.alpha
        torch._foreach_lerp_(self.slow, fast, shares)
        torch._foreach_copy_(fast, self.slow)

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        fast: list[Tensor] = [*gan.generator.parameters(), *gan.discriminator.parameters()]
        begins, ends = self._place()
        if begins:
            self._begin(fast)
        super().__call__(gan, reals, d_steps=d_steps, g_steps=g_steps)
        self.passed["iterations"] += 1
        if ends:
            self._pull(fast)

    def _place(self) -> tuple[bool, bool]:
        """Return whether the next iteration is the first of a round, and whether it is the last."""
        iteration = self.passed["iterations"]
        return iteration % self.every == 0, (iteration + 1) % self.every == 0

    def turn(self, d_steps: int, g_steps: int) -> Hashable:
        return self._place(), super().turn(d_steps, g_steps)

    def remembered(self) -> dict[str, Any]:
        return {**super().remembered(), "slow": self.slow}

    def remember(self, state: dict[str, Any]) -> None:
        super().remember(state)
        self.slow = [tensor.clone() for tensor in state["slow"]]
