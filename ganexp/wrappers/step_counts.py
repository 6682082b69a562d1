"""Wrappers that set how many updates the networks make in an iteration."""

from collections.abc import Callable, Hashable, Iterator
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from ganexp.batch import Batch, per_sample
from ganexp.facts import Facts, Misfit
from ganexp.gan import GAN
from ganexp.losses import Loss
from ganexp.ranges import checked
from ganexp.wrappers.base import Counting, Remembering, handed_on

Steps = Annotated[int, Ge(1), Le(10_000)]


class WarmUp(Counting):
    """Many updates of one network in the first iterations, and in every n-th.

    Arjovsky et al. 2017 do so in their code, but not in algorithm 1: 100 updates of D in iterations 0 to 24 and in every 500th,
    so that the critic is near its optimum. Departure: there, an iteration with many updates ends with the epoch.

    Args:
        first: Number of iterations at the beginning with many updates.
        every: After these, every n-th iteration, counted from 0, has many updates too; 0 for none.
        many: Number of updates.
        of: The network that makes them; the other one, and this one in other iterations, makes d_steps or g_steps.
    """

    constant_steps = False

    @checked
    def __init__(
        self,
        strategy: Callable[..., None],
        *,
        first: Annotated[int, Ge(0)] = 25,
        every: Annotated[int, Ge(0)] = 500,
        many: Steps = 100,
        of: Literal["d", "g"] = "d",
    ) -> None:
        super().__init__(strategy)
        self.first = first
        self.every = every
        self.many = many
        self.of = of
        self.in_turns = many <= 200  # a CUDA graph of more would be too large

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        """Run one iteration, with many updates if they are due and no outer wrapper leaves this network out."""
        counts = {"d_steps": d_steps, "g_steps": g_steps}
        if self._many_are_due() and counts[f"{self.of}_steps"]:
            counts[f"{self.of}_steps"] = self.many
        super().__call__(gan, reals, **counts)
        self.passed["iterations"] += 1

    def _many_are_due(self) -> bool:
        iteration = self.passed["iterations"]
        return iteration < self.first or bool(self.every and iteration % self.every == 0)

    def turn(self, d_steps: int, g_steps: int) -> Hashable:
        return self._many_are_due(), super().turn(d_steps, g_steps)


class Balanced(Remembering):
    """D is updated only while its accuracy is below a bound (common practice, without a paper).

    Accuracy is the share of real and generated samples on the right side of the loss's boundary over the last iterations. Real
    samples are those of D's last update, generated ones those of G's. An iteration without D consists of G's `g_steps` updates,
    with the wrappers inside; D then scores a real batch, but does not learn from it.

    Each iteration reads one number from the device and waits for it.

    Args:
        bound: The accuracy from which on D is not updated; a D that guesses has ½.
        window: Number of iterations that the accuracy is averaged over.
    """

    constant_steps = False
    needs = ("scores",)

    @checked
    def __init__(
        self,
        strategy: Callable[..., None],
        *,
        bound: Annotated[float, Gt(0.5), Le(1)] = 0.8,
        window: Annotated[int, Ge(1)] = 10,
    ) -> None:
        super().__init__(strategy)
        self.bound = bound
        self.window = window
        self.right: list[int] = []
        """The number of samples on the right side in each of the last iterations."""

    def check(self, run: Facts) -> None:
        if run.loss.boundary is None:
            raise Misfit(
                "needs a loss with a boundary between real and generated scores, and this one has none", loss="nonsaturating"
            )

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        if gan.loss.boundary is None:
            name = type(gan.loss).__name__
            raise ValueError(f"balanced needs a loss with a boundary between real and generated, which {name} lacks")
        if d_steps and self.accuracy(gan) < self.bound:
            super().__call__(gan, reals, d_steps=d_steps, g_steps=g_steps)
            real = gan.meter.last_real
        else:
            real = self.rest(gan, reals, g_steps)
        fake = gan.meter.last_fake
        assert real is not None
        assert fake is not None
        if not fake.is_meta:
            self.right = [*self.right, int(on_right_side(gan.loss, real, fake))][-self.window :]

    def accuracy(self, gan: GAN) -> float:
        """Return D's accuracy over the last iterations, as a quotient of whole numbers, which can equal the bound."""
        scored = (gan.batch_size + gan.g_batch) // gan.pack
        return sum(self.right) / (scored * len(self.right)) if self.right else 0.0

    def rest(self, gan: GAN, reals: Iterator[Batch], g_steps: int) -> Tensor:
        """Update G alone, and return D's scores of a real batch, which is also the first that G's loss compares with."""
        first, moved = next(reals), gan.meter.updates["d"]
        with torch.no_grad():
            real = gan.score_real(first)
        super().__call__(gan, handed_on(gan, first, reals), d_steps=0, g_steps=g_steps)
        if gan.meter.updates["d"] > moved:
            raise ValueError("a wrapper inside has updated D for d_steps=0: it should run what is inside by super().__call__")
        return real

    def remembered(self) -> dict[str, Any]:
        return {"right": self.right}

    def remember(self, state: dict[str, Any]) -> None:
        self.right = list(state["right"])


def on_right_side(loss: Loss, real: Tensor, fake: Tensor) -> Tensor:
    """Return the number of real and generated samples on the right side of a loss's boundary, a scalar."""
    assert loss.boundary is not None
    above_real, above_fake = ((per_sample(scores) > loss.boundary).sum() for scores in (real, fake))
    right = above_real + len(fake) - above_fake
    return len(real) + len(fake) - right if loss.low_is_real else right
