"""Schedules that move learning rates."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from torch.optim import Optimizer

from ganexp.facts import Facts
from ganexp.optimizers.rates import keep_rate_on_device, set_rate
from ganexp.ranges import checked
from ganexp.schedules.base import Schedule

Of = Literal["both", "d", "g"]
"""The networks whose learning rates a schedule moves."""


class Moving(Schedule):
    """Multiplies the optimisers' learning rates by `factor(t)`, where t is the number of completed iterations.

    The factor is a number on the host, so that ordinary iterations never wait for the device. Rates are stored in tensors if
    the optimiser can read them there, which a CUDA graph needs. Torch's schedulers are not used: they replace `optimizer.step`,
    and their rates depend on rounding from step to step, not on t alone.

    Args:
        of: The networks whose rates move.
    """

    def __init__(self, iterations: int, *, of: Of = "both") -> None:
        super().__init__(iterations)
        self.done = 0
        self.of = of
        self._moved: dict[str, Optimizer] = {}
        self._used: dict[str, float] = {}

    def begin(self, optimizers: Mapping[str, Optimizer]) -> None:
        """Take over the rates; the optimisers' initial ones are kept as `initial_lr`, as in torch."""
        self._moved = {name: optimizer for name, optimizer in optimizers.items() if self.of in ("both", name)}
        for optimizer in optimizers.values():
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", float(group["lr"]))
        on_host = [type(optimizer).__name__ for optimizer in self._moved.values() if not keep_rate_on_device(optimizer)]
        self.on_host = tuple(f"{name} reads a scheduled learning rate" for name in on_host)
        self._used = {name: float(optimizer.param_groups[0]["initial_lr"]) for name, optimizer in optimizers.items()}
        self._apply()

    def factor(self, t: int) -> float:
        """Return the factor of the rates in iteration t, counted from 0."""
        raise NotImplementedError

    def advance(self) -> None:
        factor = self.factor(self.done)
        self._used |= {name: optimizer.param_groups[0]["initial_lr"] * factor for name, optimizer in self._moved.items()}
        self.done += 1
        self._apply()

    def rates(self) -> dict[str, float]:
        return self._used

    def state_dict(self) -> dict[str, Any]:
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.done = state["done"]
        self._apply()

    def _apply(self) -> None:
        factor = self.factor(self.done)
        for optimizer in self._moved.values():
            for group in optimizer.param_groups:
                set_rate(group, group["initial_lr"] * factor)


class Ending(Moving):
    """A schedule that ends at an iteration, after which rates are constant.

    The end is part of the state, so that a run that is resumed with more iterations keeps its end unless it is given another.

    Args:
        end: The iteration at which the schedule ends; by default the end of the run.
        final: The fraction of the rates that remains.
    """

    def __init__(self, iterations: int, *, end: int | None = None, final: float = 0.0, of: Of = "both") -> None:
        super().__init__(iterations, of=of)
        self.end = iterations if end is None else end
        self.final = final
        if self.end > iterations:
            raise ValueError(
                f"schedule.end={end} lies beyond the run's {iterations} iterations: lower it, or raise iterations, or leave "
                "it null, which is the end of the run"
            )

    def check(self, run: Facts) -> None:
        if self.final == 0 and self.end < run.iterations:
            run.warn(
                f"leaves learning rates at 0 from iteration {self.end} of {run.iterations} on: raise schedule.end, or set "
                "schedule.final above 0"
            )

    def between(self, t: int, start: float, final: float) -> float:
        """Return the value in iteration t, counted from 0, of a number that moves from `start` to `final`."""
        raise NotImplementedError

    def factor(self, t: int) -> float:
        return self.between(t, 1.0, self.final)

    def refuse_at_end(self, name: str, iteration: int) -> None:
        """Refuse a schedule whose first part lasts until its end."""
        if iteration >= self.end:
            raise ValueError(f"schedule.{name}={iteration} should be less than the schedule's end, {self.end}: lower it")

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"end": self.end}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.end = state["end"]
        super().load_state_dict(state)


class Linear(Ending):
    """Constant up to iteration `begin`, then in a straight line to `final` times the rate at `end`.

    `torch.optim.lr_scheduler.LinearLR` from 1 to `final` over end − begin iterations, begun late. Used for GANs by
    Gulrajani et al. 2017, appendix F, among others (from the first iteration on, to 0).

    Args:
        begin: Iterations before the decay.
        end, final, of: As in `Ending` and `Moving`.
    """

    @checked
    def __init__(
        self,
        iterations: int,
        *,
        begin: Annotated[int, Ge(0)] = 0,
        end: Annotated[int, Ge(1)] | None = None,
        final: Annotated[float, Ge(0), Le(1)] = 0.0,
        of: Of = "both",
    ) -> None:
        super().__init__(iterations, end=end, final=final, of=of)
        self.refuse_at_end("begin", begin)
        self.begins = begin

    def between(self, t: int, start: float, final: float) -> float:
        if t <= self.begins:
            return start
        return final if t >= self.end else start + (final - start) * (t - self.begins) / (self.end - self.begins)


class Cosine(Ending):
    """Half a cosine from the rate down to `final` times it at `end` (Loshchilov & Hutter 2017, equation 5, no restarts).

    In the first `warm_up` iterations the rate rises in equal steps, the first of which is not 0. The cosine begins after
    them: `torch.optim.lr_scheduler.CosineAnnealingLR` with T_max = end − warm_up and eta_min = final × rate.

    Args:
        warm_up: Iterations in which the rate rises; Goyal et al. 2017, section 2.2.
        end, final, of: As in `Ending` and `Moving`.
    """

    @checked
    def __init__(
        self,
        iterations: int,
        *,
        warm_up: Annotated[int, Ge(0)] = 0,
        end: Annotated[int, Ge(1)] | None = None,
        final: Annotated[float, Ge(0), Le(1)] = 0.0,
        of: Of = "both",
    ) -> None:
        super().__init__(iterations, end=end, final=final, of=of)
        self.refuse_at_end("warm_up", warm_up)
        self.warm_up = warm_up

    def between(self, t: int, start: float, final: float) -> float:
        if t < self.warm_up:
            return start * ((t + 1) / self.warm_up)
        if t >= self.end:
            return final
        part = (t - self.warm_up) / (self.end - self.warm_up)
        return final + (start - final) * (1 + math.cos(math.pi * part)) / 2
