"""A schedule that lowers learning rates when a measure stalls."""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import torch
from annotated_types import Gt, Lt
from torch import Tensor
from torch.optim import Optimizer

from ganexp.facts import Facts, Misfit
from ganexp.ranges import checked
from ganexp.schedules.moving import Moving, Of

Count = Annotated[int, Gt(0)]


class Stalled(Moving):
    """Multiply rates by `by` when a measure stalls (Berthelot et al. 2017, section 4.1, BEGAN: halve when M stalls).

    The paper does not define stalling. Here the measure is averaged over windows of `every` iterations, summed on the device.
    After `patience` windows in a row that are not below the lowest one before, rates are lowered and the count restarts, as
    with `torch.optim.lr_scheduler.ReduceLROnPlateau` with threshold 0 and a patience of `patience` − 1. The host waits for the
    device only at the end of a window. In a run of `patience` windows or fewer, rates do not change.

    Args:
        metric: What is observed, a key that the loss measures; low is good.
        every: Length of a window in iterations.
        patience: Windows without progress.
        by: The factor.
        of: As in `Moving`.
    """

    @checked
    def __init__(
        self,
        iterations: int,
        *,
        metric: str = "began/convergence",
        every: Count = 1000,
        patience: Count = 3,
        by: Annotated[float, Gt(0), Lt(1)] = 0.5,
        of: Of = "both",
    ) -> None:
        super().__init__(iterations, of=of)
        self.metric, self.every, self.patience, self.by = metric, every, patience, by
        self.lowest, self.waited, self.stalls = math.inf, 0, 0
        self._sum = torch.zeros((), dtype=torch.float64)

    def check(self, run: Facts) -> None:
        if self.metric not in run.loss.measures:
            measured = sorted(run.loss.measures)
            remedy = {"metric": measured[0]} if measured else {"loss": "began"}
            raise Misfit(f"observes {self.metric}, which the loss does not measure", **remedy)

    def begin(self, optimizers: Mapping[str, Optimizer]) -> None:
        super().begin(optimizers)
        self._sum = self._sum.to(next(iter(optimizers.values())).param_groups[0]["params"][0].device)

    def factor(self, t: int) -> float:
        return self.by**self.stalls

    @torch.no_grad()
    def observe(self, measured: Callable[[], Mapping[str, Tensor]]) -> None:
        measurements = measured()
        if self.metric not in measurements:
            raise ValueError(
                f"schedule.metric={self.metric} is not measured by this loss, which measures {[*measurements] or 'nothing'}"
            )
        self._sum.add_(measurements[self.metric])

    def advance(self) -> None:
        if (self.done + 1) % self.every == 0:
            mean = self._sum.item() / self.every
            self._sum.zero_()
            self.waited += 1
            if mean < self.lowest:
                self.lowest, self.waited = mean, 0
            elif self.waited == self.patience:
                self.stalls, self.waited = self.stalls + 1, 0
        super().advance()

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "lowest": self.lowest,
            "waited": self.waited,
            "stalls": self.stalls,
            "sum": self._sum,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.lowest, self.waited, self.stalls = state["lowest"], state["waited"], state["stalls"]
        self._sum.copy_(state["sum"])
        super().load_state_dict(state)
