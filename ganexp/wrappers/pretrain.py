"""A wrapper that trains G alone on its terms first, then D beside it or alone, and then both."""

from collections.abc import Callable, Iterator
from typing import Annotated

from annotated_types import Ge

from ganexp.batch import Batch
from ganexp.facts import Facts, Misfit
from ganexp.gan import GAN
from ganexp.ranges import checked
from ganexp.wrappers.base import Counting


class Pretrain(Counting):
    """For `g` iterations G alone learns from its terms, for `beside` more D learns beside it, and for `d` more D alone.

    Then the strategy inside runs. Until then D is not used for G: terms that look at D are left out. While G is alone, D's
    optimiser makes no steps. Code that multiplies D's loss by 0 in the meantime makes steps on zero gradients, so that Adam's
    first real step is several times larger. A long `g` is usual in super-resolution (Ledig et al. 2017); a `d` gives D a head
    start.

    Args:
        g: Iterations of G alone.
        d: Iterations of D alone, the last ones before both are trained.
        beside: Iterations, after those of G alone, in which D learns too, and G still from its terms (as in RAE, Zheng et al.
            2025, before its adversarial loss begins). G's first update takes the real batch of D's last one.
    """

    constant_steps = False

    @checked
    def __init__(
        self,
        strategy: Callable[..., None],
        *,
        g: Annotated[int, Ge(0)] = 1000,
        d: Annotated[int, Ge(0)] = 0,
        beside: Annotated[int, Ge(0)] = 0,
    ) -> None:
        super().__init__(strategy)
        self.g, self.d, self.beside = g, d, beside
        if g or beside:
            self.needs += ("terms",)

    def check(self, run: Facts) -> None:
        by_terms = "g" if self.g else "beside" if self.beside else ""
        if by_terms and not run.terms:
            raise Misfit("lets G learn from its terms alone, and there are none", **{by_terms: 0}, term="[l1]")
        if by_terms and run.terms_of_d == run.terms:
            raise Misfit("lets G learn from its terms alone, and all of them look at D", **{by_terms: 0}, term="[l1]")
        if self.g + self.beside + self.d >= run.iterations:
            lasts = f"g={self.g}, beside={self.beside} and d={self.d}"
            raise Misfit(
                f"lasts {lasts} iterations, and the run no longer than {run.iterations}",
                g=run.iterations // 2,
            )

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        iteration = self.passed["iterations"]
        if iteration < self.g + self.beside:
            if beside := iteration >= self.g:
                super().__call__(gan, reals, d_steps=d_steps, g_steps=0)
                gan.put_back()
            for update in range(g_steps):
                if update or not beside:
                    next(reals)
                gan.update_g_by_terms(gan.generate(gan.sample_for_g()))
        elif iteration < self.g + self.beside + self.d:
            super().__call__(gan, reals, d_steps=d_steps, g_steps=0)
        else:
            super().__call__(gan, reals, d_steps=d_steps, g_steps=g_steps)
        self.passed["iterations"] += 1
