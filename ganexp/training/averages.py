"""Averages of the generator's weights over a run."""

import copy
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn

from ganexp.facts import Facts
from ganexp.ranges import checked


class Average:
    """The contract; by itself, the generator as it is, of which there is no average."""

    def __init__(self, generator: nn.Module) -> None:
        self.generator = generator
        """What samples come from."""

    def check(self, run: Facts) -> None:
        """Refuse a run that the average does not fit, or warn of one in which it changes nothing.

        Raises:
            Misfit: It does not fit.
        """

    def update(self) -> None:
        """Follow the generator by one iteration."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state to checkpoint, apart from the generator itself."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint's state."""


class RunningAverage(Average):
    """A weighted mean of the weights after each iteration; buffers, such as running batch statistics, are copied."""

    def __init__(self, generator: nn.Module) -> None:
        super().__init__(copy.deepcopy(generator).requires_grad_(False).eval())
        self._fast: list[Tensor] = list(generator.parameters())
        self._slow: list[Tensor] = list(self.generator.parameters())
        modules = zip(self.generator.modules(), generator.modules(), strict=True)
        self._buffers = [(slow._buffers, fast._buffers, name) for slow, fast in modules for name in fast._buffers]
        self._updates = torch.zeros((), dtype=torch.float64, device=self._slow[0].device)

    def keep(self, updates: Tensor) -> Tensor:
        """Return the share of the average that stays at an update, the `updates`-th, as a scalar on the device."""
        raise NotImplementedError

    @torch.no_grad()
    def update(self) -> None:
        self._updates += 1
        weight = (1 - self.keep(self._updates)).to(self._slow[0].dtype)
        torch._foreach_lerp_(self._slow, self._fast, [weight] * len(self._slow))
        for slow, fast, name in self._buffers:  # by name, since a module may give one of them a new tensor
            _follow(slow, fast[name], name)

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.state_dict(), "updates": int(self._updates)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.load_state_dict(state["generator"])
        self._updates.fill_(state["updates"])


class EMA(RunningAverage):
    """Exponential moving average (Yazıcı et al. 2019).

    average ← d · average + (1 − d) · generator, with d = min(decay, (1 + t) / (10 + t)) after t iterations, so that the
    start is forgotten early.
    """

    @checked
    def __init__(self, generator: nn.Module, *, decay: Annotated[float, Gt(0), Lt(1)] = 0.995) -> None:
        super().__init__(generator)
        self.decay = decay

    def keep(self, updates: Tensor) -> Tensor:
        return ((1 + updates) / (10 + updates)).clamp(max=self.decay)


class UniformAverage(RunningAverage):
    """The mean of the weights after all iterations but the first `start` (Yazıcı et al. 2019, uniform averaging).

    Until then it is the generator as it is.
    """

    @checked
    def __init__(self, generator: nn.Module, *, start: Annotated[int, Ge(0)] = 0) -> None:
        super().__init__(generator)
        self.start = start

    def check(self, run: Facts) -> None:
        """Warn of a run that ends before the second iteration is averaged."""
        if self.start + 1 >= run.iterations:
            run.warn(f"averages nothing within iterations={run.iterations}: lower start={self.start}")

    def keep(self, updates: Tensor) -> Tensor:
        return 1 - 1 / (updates - self.start).clamp(min=1)


class PowerAverage(RunningAverage):
    """The weights after iteration τ count as τ^γ, so that the average grows with the run (Karras et al. 2024, EDM2).

    By equations 1 and 2, d = (1 − 1/t)^(γ + 1). Its relative standard deviation, `width`, is
    √((γ + 1) / ((γ + 2)² (γ + 3))).
    """

    @checked
    def __init__(self, generator: nn.Module, *, width: Annotated[float, Gt(0), Lt(0.28)] = 0.1) -> None:
        super().__init__(generator)
        self.gamma = gamma_of(width)

    def keep(self, updates: Tensor) -> Tensor:
        return (1 - 1 / updates) ** (self.gamma + 1)


def gamma_of(width: float) -> float:
    """Return γ ≥ 0 of a relative width: the largest real root of (γ + 2)² (γ + 3) = (γ + 1) / width² (EDM2, algorithm 2).

    Raises:
        ValueError: The width is not below that of γ = 0, 1/√12.
    """
    inverse = width**-2
    gamma = float(max(np.roots([1, 7, 16 - inverse, 12 - inverse]).real))
    if gamma < 0:
        raise ValueError(f"a width of {width} has no γ of at least 0: choose less than {12**-0.5:.3f}")
    return gamma


class Snapshot(NamedTuple):
    """A power-function average as it was after an iteration."""

    iteration: int
    gamma: float
    weights: Mapping[str, Tensor]


def post_hoc(snapshots: Sequence[Snapshot], iteration: int, width: float) -> dict[str, Tensor]:
    """Return the power-function average of another width, approximated by snapshots (EDM2, algorithm 3).

    Its weight function over time is the combination of theirs that is nearest by least squares, so that the more snapshots of
    two widths there are, the closer it is.

    Args:
        snapshots: Averages of two widths or more, at several iterations.
        iteration: The one after which the average is wanted; snapshots of later ones are not used.
        width: The relative standard deviation that is wanted.

    Raises:
        ValueError: There is no snapshot of that iteration or an earlier one, or no average of that width.
    """
    used = [one for one in snapshots if one.iteration <= iteration]
    if not used:
        raise ValueError(f"there is no snapshot of iteration {iteration} or an earlier one")
    times, gammas = np.array([float(one.iteration) for one in used]), np.array([one.gamma for one in used])
    among = _inner(times[:, None], gammas[:, None], times, gammas)
    wanted = _inner(times, gammas, np.array(float(iteration)), np.array(gamma_of(width)))
    shares = np.linalg.lstsq(among, wanted, rcond=None)[0]

    def mixed(name: str) -> Tensor:
        together = torch.stack([one.weights[name].double() for one in used], -1) @ torch.from_numpy(shares)
        return together.to(used[-1].weights[name].dtype)

    return {name: mixed(name) for name in used[-1].weights}


def _inner(t: Any, gamma: Any, other_t: Any, other_gamma: Any) -> Any:
    """Return ∫ p q of p(τ) = (γ + 1) τ^γ / t^(γ + 1) up to t and q likewise; t cancels but for the ratio to the later time."""
    earlier = np.minimum(t, other_t)
    shares = (earlier / t) ** gamma * (earlier / other_t) ** other_gamma
    return (gamma + 1) * (other_gamma + 1) / (gamma + other_gamma + 1) * shares * earlier / (t * other_t)


def _follow(slow: dict[str, Tensor | None], fast: Tensor | None, name: str) -> None:
    kept = slow[name]
    if fast is not None and kept is not None and kept.shape == fast.shape:
        kept.copy_(fast)
    else:
        slow[name] = None if fast is None else fast.clone()
