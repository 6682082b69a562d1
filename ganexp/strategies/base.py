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
Need = Literal["scores", "discriminator", "zero_sum", "latents", "terms"]
"""What a game of two players may lack: D's scores of each sample, D as a function that accepts other weights, an objective of G
that is minus D's, latents from which samples can be generated again, and an objective of G without D."""


class Strategy(Part):
    """One training iteration, written in the verbs of `ganexp.gan.GAN`. A subclass need only define `__call__`."""

    equals = ""
    """The strategy that makes the same updates, in exact arithmetic; empty for an algorithm of its own."""

    family = ""
    """The class of strategies whose updates are the same or mirror images of its own, in words."""

    needs: tuple[Need, ...] = ()
    """What a game must have besides a sample of G, an objective of each player, and their derivatives."""

    looks_ahead = False
    """Whether it takes gradients at other weights than those that the update starts from."""

    differentiates_gradients = False
    """Whether it takes gradients of gradients, which compiled networks do not have."""

    learns_through_d_loss = False
    """Whether G's gradient passes through D's objective, so that D must be shown the current fakes."""

    constant_steps = True
    """Whether every iteration makes d_steps and g_steps updates."""

    tries_discriminator = False
    """Whether `refuse` evaluates the discriminator, so that one has to be built for it before a run."""

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
        """Set what the next iteration reads on the host besides its turn, such as seeds of streams.

        It is called before each iteration, also before the replay of a recorded one. An iteration must run without it, too.
        """

    def streams(self) -> list[torch.Generator]:
        """Return its own random streams."""
        return []

    def refuse(self, discriminator: nn.Module, loss: Loss, x: Batch) -> None:
        """Raise a ValueError if the strategy is not exact for this discriminator or loss; `x` is a batch to evaluate D on."""

    @property
    def keeps_count(self) -> bool:
        """Whether it has a state on the host besides `turn`, so that iterations cannot be recorded as CUDA graphs."""
        return bool(self.state_dict())

    def __str__(self) -> str:
        """Return the name for messages."""
        return type(self).__name__


def declared(**attributes: Any) -> Callable[[Function], Function]:
    """Return a decorator that gives a function attributes of `Strategy`, such as `equals`."""

    def declare(function: Function) -> Function:
        vars(function).update(attributes)
        return function

    return declare


def as_strategy(strategy: Callable[..., None]) -> Strategy:
    """Return a strategy as it is, and a function of `(gan, reals, *, d_steps, g_steps)` as a strategy with its attributes."""
    if isinstance(strategy, Strategy):
        return strategy
    if not inspect.isroutine(strategy) and not isinstance(strategy, functools.partial):  # its state would not be found
        raise TypeError(f"a strategy should be a function, or a ganexp.strategies.Strategy, not a {type(strategy).__name__}")
    return _Function(strategy)


class _Function(Strategy):
    """A strategy that is a function."""

    def __init__(self, function: Callable[..., None]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        self.function(gan, reals, d_steps=d_steps, g_steps=g_steps)

    def __str__(self) -> str:
        return str(vars(self).get("__name__", self.function))
