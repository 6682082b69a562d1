"""A wrapper in which the networks begin one after the other: G alone on its terms, D alone, then both."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from annotated_types import Ge

from ganexp.batch import Batch
from ganexp.facts import Facts, Misfit
from ganexp.gan import GAN
from ganexp.ranges import checked
from ganexp.wrappers.base import Remembering


class Pretrain(Remembering):
    """For `g` iterations G alone learns from its terms, for `d` more D alone from its loss, and then the strategy inside runs.

    While G is alone, D is not asked: terms that look at D are left out, and D's optimiser begins when D does. Codes that
    multiply both losses by 0 in the meantime step D's optimiser on zeros, so that Adam's first real step is several times one
    from rest. A long `g` is how super-resolution begins (Ledig et al. 2017), a `d` how a discriminator gets a head start.

    Args:
        strategy: What runs inside.
        g: Iterations of G alone.
        d: Iterations of D alone, after these.
    """

    constant_steps = False

    @checked
    def __init__(self, strategy: Callable[..., None], *, g: Annotated[int, Ge(0)] = 1000, d: Annotated[int, Ge(0)] = 0) -> None:
        super().__init__(strategy)
        self.g = g
        self.d = d
        self.iterations = 0

    def check(self, run: Facts) -> None:
        if self.g and not run.terms:
            raise Misfit("lets G learn from its terms alone, and there are none", g=0, term="[l1]")
        if self.g and run.terms_of_d == run.terms:
            raise Misfit("lets G learn from its terms alone, and all of them look at D", g=0, term="[l1]")
        if self.g + self.d >= run.iterations:
            raise Misfit(
                f"lasts g={self.g} and d={self.d} iterations, and the run no longer than {run.iterations}",
                g=run.iterations // 2,
            )

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        if self.iterations < self.g:
            for _ in range(g_steps):
                next(reals)
                gan.update_g_by_terms(gan.generate(gan.sample_for_g()))
        elif self.iterations < self.g + self.d:
            super().__call__(gan, reals, d_steps=d_steps, g_steps=0)
        else:
            super().__call__(gan, reals, d_steps=d_steps, g_steps=g_steps)
        self.iterations += 1

    def remembered(self) -> dict[str, Any]:
        return {"iterations": self.iterations}

    def remember(self, state: dict[str, Any]) -> None:
        self.iterations = state["iterations"]
