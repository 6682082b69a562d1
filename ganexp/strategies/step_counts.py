"""Wrappers that say how many updates the networks make in an iteration."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from ganexp.batch import Batch, scores_of
from ganexp.gan import GAN
from ganexp.losses import Loss
from ganexp.ranges import checked
from ganexp.strategies.wrapper import Remembering, Wrapper, refuse_no_count

Steps = Annotated[int, Ge(1), Le(10_000)]


class Constant(Wrapper):
    """d_steps and g_steps in every iteration: the strategy inside, as it is."""


class WarmUp(Remembering):
    """Many updates of one network in the first iterations, and in every n-th.

    Arjovsky et al. 2017 do so in their own code, beside algorithm 1: 100 updates of D in iterations 0 to 24 and whenever 500
    divides the iteration, so that the critic is near its optimum. Departure: there, an iteration with many updates ends early
    where an epoch does.

    Args:
        strategy: What runs inside.
        first: In how many iterations at the beginning.
        every: And from which iteration to the next; 0 is never again. Iterations are counted from 0.
        many: How many updates.
        of: Of which network; the other one, and this one at other times, has d_steps or g_steps.
    """

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
        self.iterations = 0

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        """Run one iteration, with the counts that it is to have."""
        counts = {"d_steps": d_steps, "g_steps": g_steps}
        if self.iterations < self.first or (self.every and self.iterations % self.every == 0):
            counts[f"{self.of}_steps"] = self.many
        self.strategy(gan, reals, **counts)
        self.iterations += 1

    def remembered(self) -> dict[str, Any]:
        """Return its own state."""
        return {"iterations": self.iterations}

    def remember(self, state: dict[str, Any]) -> None:
        """Take over its own state."""
        self.iterations = state["iterations"]

    def refuse_state(self, state: dict[str, Any], gan: GAN) -> None:
        """Refuse what is no state of its own."""
        refuse_no_count("the iterations of steps", state["iterations"])


class Balanced(Remembering):
    """D is updated only while its accuracy lies below a bound (common practice; no paper's).

    Accuracy is the share of samples that D puts on the right side of the loss's boundary, the mean of that of real and of
    generated ones, averaged over the last iterations. Real samples are those of D's last update, generated ones those of
    G's. An iteration without D is G's `g_steps` updates; D then scores a real batch, but does not learn from it.

    One number is read from the device in each iteration, which waits for it.

    Args:
        strategy: What runs inside.
        bound: The accuracy from which on D rests; that of a D that guesses is ½.
        window: How many iterations the accuracy is averaged over.
    """

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
        self.accuracies: list[float] = []

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        """Run one iteration of the strategy inside, or of G alone, and look at D's accuracy.

        Raises:
            ValueError: The loss has no boundary.
        """
        if gan.loss.boundary is None:
            name = type(gan.loss).__name__
            raise ValueError(f"steps=balanced needs a loss with a boundary between real and generated, which {name} lacks")
        if not self.accuracies or sum(self.accuracies) / len(self.accuracies) < self.bound:
            self.strategy(gan, reals, d_steps=d_steps, g_steps=g_steps)
            real = gan.meter.last_real
        else:
            real = self.rest(gan, reals, g_steps)
        fake = gan.meter.last_fake
        assert real is not None
        assert fake is not None
        if not fake.is_meta:
            self.accuracies = [*self.accuracies, float(accuracy(gan.loss, real, fake))][-self.window :]

    def rest(self, gan: GAN, reals: Iterator[Batch], g_steps: int) -> Tensor:
        """Update G alone, by the objective that the strategy inside has for it, and return D's scores of a real batch."""
        own = getattr(self.strategy, "g_loss", None)
        first = next(reals)
        with torch.no_grad():
            real = gan.score_real(first)
        x: Batch | None = first
        for i in range(g_steps):
            if i:
                x = next(reals) if own else gan.reals_for_g(reals)
            fake = gan.generate(gan.sample())
            gan.update_g(own(gan, x, fake) if own else gan.g_loss(x, fake))
        return real

    def remembered(self) -> dict[str, Any]:
        """Return its own state."""
        return {"accuracies": self.accuracies}

    def remember(self, state: dict[str, Any]) -> None:
        """Take over its own state."""
        self.accuracies = list(state["accuracies"])

    def refuse_state(self, state: dict[str, Any], gan: GAN) -> None:
        """Refuse what is no state of its own."""
        kept = state["accuracies"]
        if not isinstance(kept, list) or len(kept) > self.window or not all(type(a) is float and 0 <= a <= 1 for a in kept):
            raise ValueError("the accuracies of steps should be at most window numbers from 0 to 1")


def accuracy(loss: Loss, real: Tensor, fake: Tensor) -> Tensor:
    """Return the share of samples on the right side of a loss's boundary, a scalar: that of reals and of fakes, averaged."""
    assert loss.boundary is not None
    above_real, above_fake = ((scores_of(scores) > loss.boundary).double().mean() for scores in (real, fake))
    share = (above_real + 1 - above_fake) / 2
    return 1 - share if loss.low_is_real else share
