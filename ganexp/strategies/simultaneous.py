"""Handles d_steps ≠ g_steps for rules that move both networks at once."""

import functools
from collections.abc import Callable, Iterator

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.base import Strategy
from ganexp.strategies.steps import d_step, g_step

Rule = Callable[[GAN, Iterator[Batch]], None]
"""A function that moves the networks once."""


def simultaneous(rule: Rule, g_step: Rule = g_step) -> Callable[..., None]:
    """Return a strategy that applies a rule min(d_steps, g_steps) times, and then makes the further steps of one network."""

    def strategy(gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        for _ in range(min(d_steps, g_steps)):
            rule(gan, reals)
        for _ in range(d_steps - g_steps):
            d_step(gan, reals)
        for _ in range(g_steps - d_steps):
            g_step(gan, reals)

    functools.update_wrapper(strategy, rule, ("__module__", "__name__", "__qualname__", "__doc__"))
    del strategy.__wrapped__  # type: ignore[attr-defined]  # the signature is that of a strategy
    return strategy


class Simultaneous(Strategy):
    """A strategy given by a rule that moves both networks at once; `simultaneous` makes one from a function."""

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        """Move both networks once."""
        raise NotImplementedError

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        simultaneous(self.rule, self.g_step)(gan, reals, d_steps=d_steps, g_steps=g_steps)
