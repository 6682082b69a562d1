"""One training iteration."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Annotated, Any, cast

import torch
from annotated_types import Ge

from ganexp.documents import leaves
from ganexp.facts import Facts, Part
from ganexp.gan import GAN, Game
from ganexp.ranges import checked
from ganexp.schedules import Schedule
from ganexp.strategies.base import as_strategy
from ganexp.training.averages import Average, AveragedByOptimizer

log = logging.getLogger(__name__)


class Step:
    """One iteration: the strategy, the loss's own state, the averaged generator, the learning rates.

    Args:
        gan: A `ganexp.GAN`, or another game of two players.
        strategy: One of `ganexp.strategies`, or a function or a `Strategy` like them.
        d_steps, g_steps: Updates of each network, each at least 1.
        average: The averaged generator that samples come from; by default the generator itself.
        schedule: What moves the learning rates; by default nothing.
    """

    @checked
    def __init__(
        self,
        gan: Game,
        strategy: Callable[..., None],
        *,
        d_steps: Annotated[int, Ge(1)] = 1,
        g_steps: Annotated[int, Ge(1)] = 1,
        average: Average | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        self.gan = cast(GAN, gan)  # of another game, what only a GAN has is read by nothing that trains it
        self.strategy = as_strategy(strategy)
        gan.accept(self.strategy)
        self._has_compared = False
        self.d_steps = d_steps
        self.g_steps = g_steps
        self.average = average or Average(gan.generator)
        if any(getattr(optimizer, "averages_weights", False) for optimizer in (gan.optimizer_d, gan.optimizer_g)):
            self._check_averaging()
        self.schedule = schedule or Schedule()
        self.schedule.begin({"d": gan.optimizer_d, "g": gan.optimizer_g})

    def __call__(self, reals: Iterator[Any], *, keep_gradients: bool = False) -> None:
        """Run one iteration on batches drawn from `reals`; the meter keeps its gradients if their norms will be read."""
        self.strategy.prepare()
        self.gan.meter.begin(keep_gradients=keep_gradients)
        before = self.gan.meter.updates.copy()
        try:
            with self.gan.timer.phase("iteration"):
                self.iterate(reals)
        except StopIteration:
            updates = self.gan.meter.updates - before
            raise ValueError(
                f"the batches ended within an iteration, after {updates['d']} updates of D and {updates['g']} of G: give an "
                "iterator that goes on, such as one over a DataLoader again and again"
            ) from None
        self.schedule.advance()

    def _check_averaging(self) -> None:
        """Let samples come from weights that an optimiser averages, and refuse what moves weights that it would not see."""
        gan, averaging = self.gan, Facts(shape=(), averages_weights=True)
        Part.check(getattr(gan, "penalty", Part()), averaging)
        part: Any = self.strategy
        while isinstance(part, Part):
            Part.check(part, averaging)
            part = getattr(part, "strategy", None)
        if type(self.average) is Average:
            trained = {"generator": (gan.generator, gan.optimizer_g), "discriminator": (gan.discriminator, gan.optimizer_d)}
            self.average = AveragedByOptimizer(trained)

    def _warn_after_first(self, before: Counter[str], kept: dict[str, Any]) -> None:
        """Warn, after the first iteration, of a strategy that makes fewer updates than it says, or keeps what no state has."""
        self._has_compared = True
        changed = {name: value for name, value in _kept(self.strategy).items() if name not in kept or kept[name] != value}
        state = dict(leaves(self.strategy.state_dict()))
        names = {part.strip("_") for key in state for part in key.split(".")}
        values = [value for value in state.values() if isinstance(value, (int, float, str))]
        lost = [name for name, value in changed.items() if name.strip("_") not in names and value not in values]
        if lost:
            log.warning(
                "Strategy %s has changed %s, and its state_dict() does not have this: a resumed run begins it anew. Return it "
                "from state_dict() and set it in load_state_dict(state).",
                self.strategy,
                ", ".join(lost),
            )
        if before.total() or not self.strategy.constant_steps:  # in a resumed run, the first iteration is past
            return
        updates = self.gan.meter.updates - before
        for network, asked in {"d": self.d_steps, "g": self.g_steps}.items():
            if updates[network] < asked:
                log.warning(
                    "Strategy %s made %d of the %d updates that %s_steps asks for in the first iteration.",
                    self.strategy,
                    updates[network],
                    asked,
                    network,
                )

    def iterate(self, reals: Iterator[Any]) -> None:
        """Run one iteration, untimed; the caller sets the learning rates of the next one, on the host."""
        before = None if self._has_compared else (self.gan.meter.updates.copy(), _kept(self.strategy))
        self.strategy(self.gan, self.gan.follow(reals), d_steps=self.d_steps, g_steps=self.g_steps)
        if before is not None:
            self._warn_after_first(*before)
        self.gan.finish_iteration()
        self.average.update()
        self.schedule.observe(self.gan.measurements)

    def parts(self) -> dict[str, Any]:
        return {"average": self.average, "strategy": self.strategy, "schedule": self.schedule}

    def state_dict(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self.parts().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, part in self.parts().items():
            part.load_state_dict(copied(state[name], self.gan.device))


def _kept(strategy: Any) -> dict[str, Any]:
    """Return the numbers and texts on the host that a strategy, and each one inside it, has as attributes.

    Those of ganexp's own are left out: what is not in their states is found anew.
    """
    own = type(strategy).__module__.startswith("ganexp.")
    values = {name: value for name, value in vars(strategy).items() if isinstance(value, (int, float, str)) and not own}
    inside = getattr(strategy, "strategy", None)
    return values if inside is None else {**_kept(inside), **values}


def copied(value: Any, device: torch.device) -> Any:
    """Return a copy of nested values on a device, in which no two tensors share memory."""
    if isinstance(value, torch.Tensor):
        return value.to(device, copy=True)
    if isinstance(value, dict):
        return {key: copied(item, device) for key, item in value.items()}
    return [copied(item, device) for item in value] if isinstance(value, list) else value
