"""Averages of the networks' weights over a run."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn

from ganexp.facts import Facts, Part
from ganexp.ranges import checked

Of = Literal["generator", "both"]
"""Whose weights are averaged: G's alone, or D's too."""
NARROWEST, WIDEST = 1e-6, 0.28
"""Bounds of widths: one iteration of a million, and below the width of the uniform average."""
Width = Annotated[float, Ge(NARROWEST), Lt(WIDEST)]
Buffers = dict[str, Tensor | None]


class Average(Part):
    """The contract of an average; the class itself averages nothing, and leaves both networks as they are."""

    def __init__(self, generator: nn.Module, discriminator: nn.Module | None = None) -> None:
        self._generator = generator

    @property
    def generator(self) -> nn.Module:
        """The generator that samples come from."""
        return self._generator

    def update(self) -> None:
        """Follow the networks by one iteration."""

    def networks(self) -> dict[str, nn.Module]:
        """Return the averaged networks, if there are any, by name."""
        return {}


class RunningAverage(Average):
    """A weighted mean of the weights after each iteration; buffers, such as running batch statistics, are copied.

    Args:
        generator: The generator that is trained.
        discriminator: The discriminator that is trained; only needed with `of="both"`.
        of: Whose weights are averaged.
    """

    def __init__(self, generator: nn.Module, discriminator: nn.Module | None = None, *, of: Of = "generator") -> None:
        trained = {"generator": generator}
        if of == "both":
            if discriminator is None:
                raise ValueError("of=both also averages the discriminator, which was not given")
            trained["discriminator"] = discriminator
        self._averaged = {name: copy_of(network).requires_grad_(False).eval() for name, network in trained.items()}
        super().__init__(self._averaged["generator"])
        self._fast: list[Tensor] = [p for network in trained.values() for p in network.parameters()]
        self._slow: list[Tensor] = [p for network in self._averaged.values() for p in network.parameters()]
        self._buffers = [slot for name, network in trained.items() for slot in _buffers(self._averaged[name], network)]
        self._updates = torch.zeros((), dtype=torch.float64, device=self._slow[0].device)

    def check(self, run: Facts) -> None:
        super().check(run)
        if run.averages_weights:
            run.warn("averages weights that the optimiser already averages: choose average=none")

    def keep(self, updates: Tensor) -> Tensor:
        """Return the share of the average that is kept at the `updates`-th update, as a scalar on the device."""
        raise NotImplementedError

    @torch.no_grad()
    def update(self) -> None:
        self._updates += 1
        weight = (1 - self.keep(self._updates)).to(self._slow[0].dtype)
        torch._foreach_lerp_(self._slow, self._fast, [weight] * len(self._slow))
        for slow, fast, name in self._buffers:  # by name, since a module may replace a buffer by a new tensor
            _follow(slow, fast[name], name)

    def networks(self) -> dict[str, nn.Module]:
        return dict(self._averaged)

    def state_dict(self) -> dict[str, Any]:
        return {name: network.state_dict() for name, network in self._averaged.items()} | {"updates": int(self._updates)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, network in self._averaged.items():
            network.load_state_dict(state[name])
        self._updates.fill_(state["updates"])


class AveragedByOptimizer(Average):
    """The averages that an optimiser has of the weights it moves, such as x of `ScheduleFree`; buffers are copied.

    They are formed whenever they are asked for. A checkpoint stores them for those who load it; training never reads them back.
    Of the optimisers, which come with their networks by name, one or both have a method `averaged`.
    """

    def __init__(self, trained: Mapping[str, tuple[nn.Module, Any]]) -> None:
        super().__init__(trained["generator"][0])
        self._trained = {name: pair for name, pair in trained.items() if hasattr(pair[1], "averaged")}
        self._averaged = {name: copy_of(network).requires_grad_(False).eval() for name, (network, _) in self._trained.items()}

    @property
    def generator(self) -> nn.Module:
        return self.networks().get("generator", self._generator)

    @torch.no_grad()
    def networks(self) -> dict[str, nn.Module]:
        for name, (network, optimizer) in self._trained.items():
            averaged = self._averaged[name]
            torch._foreach_copy_([*averaged.parameters()], optimizer.averaged([*network.parameters()]))
            for slow, fast, buffer in _buffers(averaged, network):
                _follow(slow, fast[buffer], buffer)
        return dict(self._averaged)

    def state_dict(self) -> dict[str, Any]:
        return {name: network.state_dict() for name, network in self.networks().items()}


class EMA(RunningAverage):
    """Exponential moving average (Yazıcı et al. 2019): average ← d · average + (1 − d) · weights.

    With a `decay`, d = min(decay, (1 + t) / (10 + t)) after t iterations, so that the start is forgotten early. With a
    `half_life` h, d = 2^(−1/h), and 0 for h = 0, as in StyleGAN and R3GAN, which count it in images.

    Args:
        generator, discriminator, of: As in `RunningAverage`.
        decay: The largest d.
        half_life: Iterations after which the weights of an iteration count half as much; in place of the decay.
    """

    on_device: ClassVar = {"decay": torch.float64, "half_life": torch.float64}

    @checked
    def __init__(
        self,
        generator: nn.Module,
        discriminator: nn.Module | None = None,
        *,
        decay: Annotated[float, Gt(0), Lt(1)] = 0.995,
        half_life: Annotated[float, Ge(0)] | None = None,
        of: Of = "generator",
    ) -> None:
        super().__init__(generator, discriminator, of=of)
        self.decay: float | Tensor = decay
        self.half_life: float | Tensor | None = half_life

    def keep(self, updates: Tensor) -> Tensor:
        if self.half_life is None:
            return ((1 + updates) / (10 + updates)).clamp(max=self.decay)
        half_life = torch.zeros_like(updates) + self.half_life  # a number or a tensor
        return torch.exp2(-1 / half_life)


class UniformAverage(RunningAverage):
    """The mean of the weights after all iterations but the first `start` (Yazıcı et al. 2019, uniform averaging).

    Until then, the average is the generator as it is. All weights count alike, those of the beginning too, whose share washes
    samples out: docs/choices.md has figures. Batch norm's statistics, which are copied, are the smaller fault.
    """

    @checked
    def __init__(
        self,
        generator: nn.Module,
        discriminator: nn.Module | None = None,
        *,
        start: Annotated[int, Ge(0)] = 0,
        of: Of = "generator",
    ) -> None:
        super().__init__(generator, discriminator, of=of)
        self.start = start

    def check(self, run: Facts) -> None:
        super().check(run)
        if self.start + 1 >= run.iterations:
            run.warn(f"averages nothing within iterations={run.iterations}: lower start={self.start}")
        elif 4 * self.start < run.iterations:
            run.warn(
                f"counts the first weights as much as the last, which washes samples out: choose start={run.iterations // 4} "
                "or more"
            )

    def keep(self, updates: Tensor) -> Tensor:
        return 1 - 1 / (updates - self.start).clamp(min=1)


class PowerAverage(RunningAverage):
    """The weights after iteration τ count as τ^γ, so that the average grows with the run (Karras et al. 2024, EDM2).

    By equations 1 and 2, d = (1 − 1/t)^(γ + 1). Its relative standard deviation, `width`, is
    √((γ + 1) / ((γ + 2)² (γ + 3))).

    Args:
        generator, discriminator, of: As in `RunningAverage`.
        width: The width of the average that samples come from.
        beside: Widths of further averages of G, which checkpoints hold, so that `post_hoc` has two widths or more to go by.
    """

    fixed: ClassVar = {"width": "belongs to the average over the whole run"}

    @checked
    def __init__(
        self,
        generator: nn.Module,
        discriminator: nn.Module | None = None,
        *,
        width: Width = 0.1,
        beside: Sequence[Width] = (),
        of: Of = "generator",
    ) -> None:
        super().__init__(generator, discriminator, of=of)
        self.gamma = gamma_of(width)
        self.beside = {f"{further_width:g}": PowerAverage(generator, width=further_width) for further_width in beside}

    def keep(self, updates: Tensor) -> Tensor:
        return (1 - 1 / updates) ** (self.gamma + 1)

    def update(self) -> None:
        super().update()
        for average in self.beside.values():
            average.update()

    def networks(self) -> dict[str, nn.Module]:
        further = {f"generator of width {width}": average.generator for width, average in self.beside.items()}
        return super().networks() | further

    def state_dict(self) -> dict[str, Any]:
        own = super().state_dict()
        return own | {"beside": {width: average.state_dict() for width, average in self.beside.items()}} if self.beside else own

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        for width, average in self.beside.items():
            average.load_state_dict(state["beside"][width])


def gamma_of(width: float) -> float:
    """Return γ ≥ 0 of a relative width: the largest real root of (γ + 2)² (γ + 3) = (γ + 1) / width² (EDM2, algorithm 2).

    The width has to be below that of γ = 0, 1/√12; every `Width` is.
    """
    import numpy as np  # only averages of a width need it

    inverse = width**-2
    return float(max(np.roots([1, 7, 16 - inverse, 12 - inverse]).real))


class Snapshot(NamedTuple):
    """A power-function average as it was after an iteration."""

    iteration: int
    gamma: float
    weights: Mapping[str, Tensor]


def post_hoc(snapshots: Sequence[Snapshot], iteration: int, width: float) -> dict[str, Tensor]:
    """Return the power-function average of another width after an iteration, approximated by snapshots (EDM2, algorithm 3).

    Snapshots of later iterations are not used. A close approximation takes averages of two widths or more.
    """
    used = [snapshot for snapshot in snapshots if snapshot.iteration <= iteration]
    shares, _ = shares_of([(snapshot.iteration, snapshot.gamma) for snapshot in used], iteration, width)
    mixed = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in used[-1].weights.items()}
    for share, snapshot in zip(shares, used, strict=True):
        for name, tensor in mixed.items():
            tensor.add_(snapshot.weights[name].double(), alpha=share)
    return {name: tensor.to(used[-1].weights[name].dtype) for name, tensor in mixed.items()}


@checked
def shares_of(averages: Sequence[tuple[int, float]], iteration: int, width: Width) -> tuple[list[float], float]:
    """Return the shares in which averages sum to the best approximation of the average of a width, and its relative error.

    Each average is an iteration and a γ. Best is by least squares over the weight functions of time; the error is the distance
    between the two functions, relative to the norm of the wanted one.
    """
    import numpy as np

    if not averages:
        raise ValueError(f"there is no snapshot of iteration {iteration} or an earlier one")
    times, gammas = np.array([float(time) for time, _ in averages]), np.array([gamma for _, gamma in averages])
    end, gamma = np.array(float(iteration)), np.array(gamma_of(width))
    among = _inner(times[:, None], gammas[:, None], times, gammas)
    wanted = _inner(times, gammas, end, gamma)
    shares = np.linalg.lstsq(among, wanted, rcond=None)[0]
    square = _inner(end, gamma, end, gamma)
    off = square - 2 * shares @ wanted + shares @ among @ shares
    return shares.tolist(), float(np.sqrt(max(0.0, off / square)))


def _inner(t: Any, gamma: Any, other_t: Any, other_gamma: Any) -> Any:
    """Return ∫ p q for p(τ) = (γ + 1) τ^γ / t^(γ + 1) up to t, and q likewise; powers are of ratios of times only."""
    import numpy as np

    earlier = np.minimum(t, other_t)
    shares = (earlier / t) ** gamma * (earlier / other_t) ** other_gamma
    return (gamma + 1) * (other_gamma + 1) / (gamma + other_gamma + 1) * shares * earlier / (t * other_t)


def copy_of(network: nn.Module) -> nn.Module:
    """Return a copy of a network; weights that a hook has computed, as torch.nn.utils.weight_norm's does, lose their graphs."""
    computed = (tensor for module in network.modules() for tensor in vars(module).values() if isinstance(tensor, Tensor))
    return copy.deepcopy(network, {id(tensor): tensor.detach().clone() for tensor in computed if not tensor.is_leaf})


def _buffers(slow: nn.Module, fast: nn.Module) -> Iterator[tuple[Buffers, Buffers, str]]:
    """Yield, for each buffer, the dictionaries that hold it in the copy and in the network, and its name."""
    for module, original in zip(slow.modules(), fast.modules(), strict=True):
        for name in original._buffers:
            yield module._buffers, original._buffers, name


def _follow(slow: Buffers, fast: Tensor | None, name: str) -> None:
    kept = slow[name]
    if fast is not None and kept is not None and kept.shape == fast.shape:
        kept.copy_(fast)
    else:
        slow[name] = None if fast is None else fast.clone()
