"""The contract of update strategies."""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

import torch
from torch import nn

from ganexp.batch import Batch
from ganexp.facts import Facts, Misfit, Part
from ganexp.gan import GAN
from ganexp.losses import Loss
from ganexp.strategies.steps import g_step

Function = TypeVar("Function", bound=Callable[..., None])
Need = Literal["scores", "discriminator", "zero_sum", "latents"]
"""What a game of two players may lack: D's scores of each sample, D as a function to which other weights can be given, an
objective of G that is minus D's, and latents that can be generated again."""


class Strategy(Part):
    """One training iteration, written in the verbs of `ganexp.gan.GAN`. A subclass need only define `__call__`."""

    equals = ""
    """The strategy whose updates it makes, in exact arithmetic; empty for an algorithm of its own."""

    family = ""
    """What it has in common with other strategies whose updates are the same or mirror images of its own, in words."""

    needs: tuple[Need, ...] = ()
    """What it needs of a game, besides a sample of G, an objective of each player, and their derivatives."""

    looks_ahead = False
    """Whether it takes gradients at weights that are left again, ahead of those from which the step proper is made."""

    differentiates_gradients = False
    """Whether it takes gradients of gradients, which compiled networks do not have."""

    learns_through_d_loss = False
    """Whether G's gradient passes through D's objective on the fakes at hand, so that D cannot be shown others."""

    constant_steps = True
    """Whether every iteration makes as many updates as it is asked for."""

    tries_discriminator = False
    """Whether `refuse` runs a discriminator on actual values, so that one must be made for it before a run."""

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        """Run one iteration, with `d_steps` updates of D and `g_steps` of G, on batches drawn from `reals`."""
        raise NotImplementedError

    def g_step(self, gan: GAN, reals: Iterator[Batch]) -> None:
        """Update G alone, on a batch of its own, by the objective that this strategy has for G."""
        g_step(gan, reals)

    def check(self, run: Facts) -> None:
        super().check(run)
        if self.differentiates_gradients:
            run.refuse_second_derivatives("generator", "discriminator")
        if self.differentiates_gradients and run.processes > 1:
            reason = f"differentiates gradients, of which each of {run.processes} processes has its share only"
            raise Misfit(reason, strategy="joint")

    def prepare(self) -> None:
        """Set on the host what the next iteration reads there besides its turn, such as seeds of streams.

        It is called before each iteration, replays included; an iteration that runs without it does this itself.
        """

    def streams(self) -> list[torch.Generator]:
        """Return the random streams that it draws from by itself."""
        return []

    def refuse(self, discriminator: nn.Module, loss: Loss, x: Batch) -> None:
        """Refuse a discriminator or a loss that the strategy is not exact for; `x` is a batch to try them on.

        Raises:
            ValueError: The strategy is not exact for one of them.
        """

    @property
    def keeps_count(self) -> bool:
        """Whether it has a state on the host besides what `turn` says, so that iterations cannot be recorded as CUDA graphs."""
        return bool(self.state_dict())

    def __str__(self) -> str:
        """Return its name in messages."""
        return type(self).__name__


def declared(**facts: Any) -> Callable[[Function], Function]:
    """Return a decorator that declares facts of a strategy that is a function, by their names in `Strategy`."""

    def declare(function: Function) -> Function:
        vars(function).update(facts)
        return function

    return declare


def as_strategy(strategy: Callable[..., None]) -> Strategy:
    """Return a strategy as it is, and a function of `(gan, reals, *, d_steps, g_steps)` as a strategy with its attributes.

    Raises:
        TypeError: It is neither. Any other object may have a state, which would not be found.
    """
    if isinstance(strategy, Strategy):
        return strategy
    if not inspect.isroutine(strategy) and not isinstance(strategy, functools.partial):
        raise TypeError(f"a strategy should be a function, or a ganexp.strategies.Strategy, not a {type(strategy).__name__}")
    return _Function(strategy)


class _Function(Strategy):
    """A strategy that is just a function."""

    def __init__(self, function: Callable[..., None]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        self.function(gan, reals, d_steps=d_steps, g_steps=g_steps)

    def __str__(self) -> str:
        return str(vars(self).get("__name__", self.function))
