"""Numbers of parts that move over a run."""

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ganexp.facts import Facts, Part
from ganexp.optimizers.moving_adam import keep_setting_on_device, moves_on_device
from ganexp.schedules.base import Schedule
from ganexp.schedules.moving import Ending


class Setting:
    """A setting of a part, stored in the attribute of the same name.

    If the part declares it in `on_device`, it is a tensor on the device, which recorded iterations read. Otherwise it is a
    number on the host.
    """

    def __init__(self, part: Part, name: str) -> None:
        self.part, self.name = part, name
        self._tensor: Tensor | None = None

    @property
    def on_host(self) -> str:
        """A sentence that names the part, if it reads the setting as a number on the host; else empty."""
        return "" if self.name in self.part.on_device else f"{type(self.part).__name__} reads a moving {self.name}"

    def begin(self, device: torch.device, dtype: torch.dtype) -> None:
        """Prepare the setting for a run with networks on this device and of this type."""
        if self.name in self.part.on_device:
            self._tensor = torch.zeros((), dtype=self.part.on_device[self.name] or dtype, device=device)
            setattr(self.part, self.name, self._tensor)

    def write(self, value: float) -> None:
        """Set the number to this value."""
        if self._tensor is None:
            setattr(self.part, self.name, value)
        else:
            self._tensor.fill_(value)


class OptimizerSetting:
    """A setting of optimisers, such as `momentum`, or one number of a pair, such as the second of `betas`.

    If the optimiser declares it in `moves_on_device`, it is stored in tensors there, as for `Setting`. The weight decay of a
    parameter group with `decays=False`, such as that of `adamw` for biases, does not move.
    """

    def __init__(self, optimizers: Sequence[Optimizer], name: str, index: int | None = None) -> None:
        self.optimizers, self.name, self.index = optimizers, name, index
        # `decays` is read now, since groups from an older checkpoint may not have it
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        self._moves = [name != "weight_decay" or group.get("decays", True) for group in groups]

    @property
    def on_host(self) -> str:
        optimizer = self.optimizers[0]
        return "" if moves_on_device(optimizer, self.name) else f"{type(optimizer).__name__} reads a moving {self.name}"

    def begin(self, device: torch.device, dtype: torch.dtype) -> None:
        for optimizer in self.optimizers:
            if moves_on_device(optimizer, self.name):
                keep_setting_on_device(optimizer, self.name, device)

    def write(self, value: float) -> None:
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        for group in compress(groups, self._moves):
            setting = group[self.name]
            number = setting if self.index is None else setting[self.index]
            if isinstance(number, Tensor):
                number.fill_(value)
            elif self.index is None:
                group[self.name] = value
            else:
                group[self.name] = (*setting[: self.index], value, *setting[self.index + 1 :])


Place = Setting | OptimizerSetting
"""The storage of a moving number."""


class Coefficient:
    """A number, stored in `place`, that moves from `start` to `to` over a run, along the curve of a schedule."""

    def __init__(self, place: Place, start: float, to: float, along: Ending) -> None:
        self.place, self.start, self.to, self.along = place, start, to, along

    def value(self, t: int) -> float:
        """Return its value in iteration t, counted from 0."""
        return self.along.between(t, self.start, self.to)


class Coefficients(Schedule):
    """A schedule of learning rates, and of the other numbers in `moving`, by name.

    The numbers are set before each iteration, as functions of t alone, so that a resumed run continues bit for bit.
    """

    def __init__(self, rates: Schedule, moving: Mapping[str, Coefficient]) -> None:
        super().__init__(rates.iterations)
        self.of_rates, self.moving = rates, dict(moving)
        self.done = 0
        self._used = {name: coefficient.start for name, coefficient in self.moving.items()}

    def check(self, run: Facts) -> None:
        self.of_rates.check(run)

    def begin(self, optimizers: Mapping[str, Optimizer]) -> None:
        self.of_rates.begin(optimizers)
        parameter = next(iter(optimizers.values())).param_groups[0]["params"][0]
        for coefficient in self.moving.values():
            coefficient.place.begin(parameter.device, parameter.dtype)
        on_host = [coefficient.place.on_host for coefficient in self.moving.values()]
        self.on_host = (*self.of_rates.on_host, *filter(None, on_host))
        self._apply()

    def observe(self, measured: Callable[[], Mapping[str, Tensor]]) -> None:
        self.of_rates.observe(measured)

    def advance(self) -> None:
        self.of_rates.advance()
        self._used = {name: coefficient.value(self.done) for name, coefficient in self.moving.items()}
        self.done += 1
        self._apply()

    def rates(self) -> dict[str, float]:
        return self.of_rates.rates()

    def coefficients(self) -> dict[str, float]:
        return self._used

    def state_dict(self) -> dict[str, Any]:
        ends = {name: coefficient.along.end for name, coefficient in self.moving.items()}
        return {"rates": self.of_rates.state_dict(), "done": self.done, "ends": ends}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.of_rates.load_state_dict(state["rates"])
        self.done = state["done"]
        for name, coefficient in self.moving.items():
            coefficient.along.end = state["ends"][name]
        self._apply()

    def _apply(self) -> None:
        for coefficient in self.moving.values():
            coefficient.place.write(coefficient.value(self.done))
