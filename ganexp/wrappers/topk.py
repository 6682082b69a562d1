"""A wrapper in which G learns only from the fakes that D scores as most real."""

from collections.abc import Callable, Hashable, Iterator
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor, nn

from ganexp.batch import Batch, per_sample
from ganexp.facts import Facts, Misfit
from ganexp.gan import GAN
from ganexp.losses import Loss
from ganexp.ranges import checked
from ganexp.wrappers.base import Counting, seen


class TopK(Counting):
    """G's objective is formed on the k best-scored fakes of its batch (Sinha et al. 2020, section 3).

    k = max(γⁿ, ν) · B, rounded, after n reductions: as in the paper, from the whole batch down to the share ν. A loss that
    compares with real scores sees those of the whole batch; a loss on pairs keeps the partners of the chosen fakes. D's
    objective, the logged scores and a loss's own state use all fakes. B is the number of fakes, or of packs, of all processes
    together. If D scores places, a fake's score is the mean over its places.

    Departures: k is reduced every `every` iterations, in the paper every epoch. Fakes are chosen by the scores that the
    objective is formed on, after the augmentation.

    Args:
        nu: The final share of the fakes; with 1, the wrapper does nothing.
        gamma: The factor of each reduction.
        every: Iterations between two reductions.
    """

    in_turns = True
    needs = ("scores",)

    fixed: ClassVar = {"gamma": "is raised to the number of falls, and so has to be one number throughout"}

    @checked
    def __init__(
        self,
        strategy: Callable[..., None],
        *,
        nu: Annotated[float, Gt(0), Le(1)] = 0.5,
        gamma: Annotated[float, Gt(0), Lt(1)] = 0.99,
        every: Annotated[int, Ge(1)] = 100,
    ) -> None:
        super().__init__(strategy)
        self.nu = nu
        self.gamma = gamma
        self.every = every
        self.scored: set[int] = set()
        """The numbers of fakes that G's batches have had."""

    def check(self, run: Facts) -> None:
        if self.nu == 1:
            return
        fakes = run.scored_for_g
        if max(1, round(self.nu * fakes)) == fakes:
            raise Misfit(f"leaves out none of a batch's {fakes} fakes with nu={self.nu}", nu=0.5, batch_size=2 * run.batch_size)
        if self.k(fakes, run.iterations - 1) == fakes:
            run.warn(f"leaves out no fake within iterations={run.iterations}: lower every or gamma")

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        if self.nu < 1:
            gan = seen(gan, loss=self.of_best(gan.loss))
        super().__call__(gan, reals, d_steps=d_steps, g_steps=g_steps)
        self.passed["iterations"] += 1

    def k(self, count: int, iteration: int) -> int:
        """Return the number of fakes, of `count`, that G learns from in an iteration, at least 1."""
        return max(1, round(max(self.gamma ** (iteration // self.every), self.nu) * count))

    def of_best(self, loss: Loss) -> Loss:
        """Return the loss with G's objective on the best fakes alone, so that its gradient with respect to the others is 0."""

        def g_loss(real: Tensor | None, fake: Tensor) -> Tensor:
            self.scored.add(len(fake))
            k = self.k(len(fake), self.passed["iterations"])
            if k == len(fake):
                return loss.g_loss(real, fake)
            chosen = per_sample(fake.detach()).topk(k, largest=not loss.low_is_real).indices
            if real is not None and loss.pairs:
                real = real.index_select(0, chosen)
            return loss.g_loss(real, fake.index_select(0, chosen))

        return seen(loss, g_loss=g_loss, uniform_ratio=False, zero_sum=False)

    def refuse(self, discriminator: nn.Module, loss: Loss, x: Batch) -> None:
        """Let the strategy inside refuse the loss, which is not zero-sum and has no uniform ratio with top-k."""
        super().refuse(discriminator, self.of_best(loss) if self.nu < 1 else loss, x)

    def turn(self, d_steps: int, g_steps: int) -> Hashable:
        chosen = [self.k(count, self.passed["iterations"]) for count in sorted(self.scored)]
        return (*chosen, super().turn(d_steps, g_steps))
