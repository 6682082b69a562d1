"""The contract of wrappers, and the views of a GAN that they pass to the strategy inside."""

import copy
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import torch
from torch import nn

from ganexp.batch import Batch
from ganexp.facts import Facts, Part
from ganexp.gan import GAN, Game
from ganexp.losses import Loss
from ganexp.strategies import Strategy
from ganexp.strategies.base import as_strategy
from ganexp.strategies.steps import d_step

View = TypeVar("View")

REPLACED = ("sample", "sample_for_g", "shown_to_d", "loss", "move_d", "move_g")
"""The attributes and verbs of a game that a view may replace."""


def seen(part: View, **instead: Any) -> View:
    """Return a view of a game, or of a loss, in which some attributes or verbs are replaced; all of its state is shared.

    Views of views can be combined in any order if a replacement calls no other verb in `REPLACED`.
    """
    if isinstance(part, Game) and (others := instead.keys() - {*REPLACED}):
        raise ValueError(f"a view of a game replaces {', '.join(REPLACED)} alone, and not {', '.join(sorted(others))}")
    view = copy.copy(part)
    vars(view).update(instead)
    return view


def handed_on(gan: GAN, batch: Batch, reals: Iterator[Batch]) -> Iterator[Batch]:
    """Yield a real batch that a wrapper has drawn, and then the others; the sources of that batch can be sampled again."""

    def repeated() -> Iterator[Batch]:
        gan.put_back()
        yield batch

    return itertools.chain(repeated(), reals)  # `yield from reals` would close a generator that the next iteration needs


class Wrapper(Strategy):
    """A strategy around a strategy. Methods that it does not override are those of the strategy inside.

    A subclass takes the strategy inside as its first argument, `strategy`, and runs it by `super().__call__`, which also
    handles d_steps=0 or g_steps=0 from an outer wrapper.
    """

    in_turns = True
    """Whether its iterations depend on nothing but tensors and `turn`."""

    def __init__(self, strategy: Callable[..., None]) -> None:
        self.strategy = as_strategy(strategy)
        self.needs = (*self.needs, *(need for need in self.strategy.needs if need not in self.needs))
        self.differentiates_gradients = self.strategy.differentiates_gradients
        self.learns_through_d_loss = self.strategy.learns_through_d_loss
        self.tries_discriminator = self.strategy.tries_discriminator
        self.constant_steps &= self.strategy.constant_steps

    def check(self, run: Facts) -> None:
        """Refuse a run that the wrapper itself does not fit, or warn of one in which it changes nothing."""
        Part.check(self, run)  # the strategy inside checks what concerns strategies

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        """Run one iteration of the strategy inside.

        With `d_steps=0`, wrappers inside run as usual, and the innermost strategy is replaced by updates of G alone, by its own
        objective for G. With `g_steps=0`, it is replaced by updates of D alone.
        """
        if (d_steps and g_steps) or isinstance(self.strategy, Wrapper):
            self.strategy(gan, reals, d_steps=d_steps, g_steps=g_steps)
            return
        for _ in range(d_steps):
            d_step(gan, reals)
        for _ in range(g_steps):
            self.strategy.g_step(gan, reals)

    def g_step(self, gan: GAN, reals: Iterator[Batch]) -> None:
        self.strategy.g_step(gan, reals)

    def refuse(self, discriminator: nn.Module, loss: Loss, x: Batch) -> None:
        self.strategy.refuse(discriminator, loss, x)

    @property
    def keeps_count(self) -> bool:
        return not self.in_turns or self.strategy.keeps_count

    def turn(self, d_steps: int, g_steps: int) -> Hashable:
        return self.strategy.turn(d_steps, g_steps)

    def prepare(self) -> None:
        self.strategy.prepare()

    def streams(self) -> list[torch.Generator]:
        return self.strategy.streams()

    def counters(self) -> list[Counter[str]]:
        return self.strategy.counters()

    def state_dict(self) -> dict[str, Any]:
        return self.strategy.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.strategy.load_state_dict(state)

    def __str__(self) -> str:
        return str(self.strategy)


class Remembering(Wrapper):
    """A wrapper with a state of its own, stored beside that of the strategy inside, if that has one."""

    in_turns = False

    def remembered(self) -> dict[str, Any]:
        """Return the state of the wrapper itself, tensors and plain values."""
        raise NotImplementedError

    def remember(self, state: dict[str, Any]) -> None:
        """Restore the state of the wrapper itself."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        inside = super().state_dict()
        return self.remembered() | ({"strategy": inside} if inside else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.remember(state)
        super().load_state_dict(state.get("strategy", {}))

    def __str__(self) -> str:
        return type(self).__name__


class Counting(Remembering):
    """A wrapper that counts its iterations in `passed["iterations"]`."""

    def __init__(self, strategy: Callable[..., None]) -> None:
        super().__init__(strategy)
        self.passed = Counter(iterations=0)

    def counters(self) -> list[Counter[str]]:
        return [self.passed, *super().counters()]

    def remembered(self) -> dict[str, Any]:
        return {**self.passed}

    def remember(self, state: dict[str, Any]) -> None:
        self.passed["iterations"] = state["iterations"]
