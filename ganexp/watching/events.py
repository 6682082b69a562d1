"""Events of a loop: passes, gradients, optimiser steps, writes to weights, and waits of the host."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.optim import Optimizer

from ganexp.watching.places import Stack


@dataclass(eq=False)
class Player:
    """The owner of the weights that an optimiser moves."""

    optimizer: Optimizer | None
    role: str = ""  # `G`, `D`, or another name for players beyond two
    successor: "Player | None" = None  # the player that has taken over all of its weights, until it moves again
    outside: str = ""  # a line that multiplies by its weights without calling a module, so that no pass is seen

    @property
    def now(self) -> "Player":
        """The player that owns its weights now."""
        return self.successor.now if self.successor else self

    @property
    def ids(self) -> set[int]:
        """The `id` of each parameter that the optimiser moves."""
        return {id(p) for p in self.parameters()}

    def parameters(self) -> list[Tensor]:
        """Return the parameters that the optimiser moves."""
        return [p for group in self.optimizer.param_groups for p in group["params"]] if self.optimizer else []


@dataclass(eq=False)
class Event:
    """An event of the loop."""

    place: str  # the line of the user's file, as `file:line`
    activations: int = field(default=0, kw_only=True)  # the most bytes kept for backward passes since the event before
    position: int = field(default=0, kw_only=True)  # the number of events before it
    ms: float = field(default=0.0, kw_only=True)  # its time on the host
    operations: int = field(default=0, kw_only=True)  # of matrix products and convolutions


@dataclass(eq=False)
class NetworkPass(Event):
    """One pass through a network."""

    number: int  # among the passes of the loop
    player: Player
    network: nn.Module
    of: frozenset[int]  # the passes that its inputs come from
    mixed: int  # the percentage of its batch that came from a network, if other samples were joined to it; else 0
    attached: set[int]  # the players that a backward pass through its inputs reaches
    first: int  # the number of its first input's values, see `Values`
    latents: int  # that of all of its inputs, or a new number if it drew its latents itself
    drew: bool  # whether it drew random numbers
    graph: bool  # whether it was recorded for a backward pass
    training: bool  # whether the network was in training mode
    frozen: bool  # whether no parameter of the network required a gradient
    steps: dict[int, int]  # how many steps each player had made
    moved: bool  # whether its inputs were moved along a gradient
    is_loss: bool  # whether its inputs were fakes and as many other samples, and its outputs single numbers
    outputs: set[int]  # the numbers of its outputs' values
    input_memory: int  # the address of its first input, as `instruments.counting.key` has it
    output_memory: set[int]  # the addresses of its outputs
    arguments: Any = None  # copies of its arguments, for the comparison with a strategy
    before: Any = None  # the `BeforePass` of the network, for the same comparison
    low: float = 0.0  # the least value of its first input
    high: float = 0.0  # and the largest
    ends: str = ""  # what its first output with a gradient ends in: `sigmoid`, `softmax`, `tanh`, or empty for others
    logits: str = ""  # the line of a loss that takes for logits what ends in a sigmoid or softmax
    alone: str = ""  # why its gradients are those of this process alone though other networks' are averaged
    scores: list[tuple[int, int, Tensor | None, Tensor]] = field(default_factory=list)
    """For each output that got a gradient: the number of the backward pass, the number of the output, the output if it is one
    score per sample or place, and the gradient."""
    by_input: list[tuple[int, Tensor]] = field(default_factory=list)
    """Gradients with respect to its first input, each with the number of the backward pass that computed it."""

    @property
    def seeds(self) -> list[tuple[int, Tensor]]:
        """Gradients with respect to its outputs, each with the number of the backward pass that computed it."""
        return [(number, seed) for number, _, _, seed in self.scores]

    @property
    def batch_norm(self) -> bool:
        """Whether the network normalises over the batch."""
        return any(isinstance(module, _BatchNorm) for module in self.network.modules())

    @property
    def has_modes(self) -> bool:
        """Whether training mode changes the network's outputs."""
        return any(map(_has_modes, self.network.modules()))


@dataclass(eq=False)
class Gradient(Event):
    """One backward pass, or one call of `torch.autograd.grad`."""

    number: int  # among the gradients of the loop
    of: frozenset[int]  # the passes that the differentiated tensors come from
    through: frozenset[int]  # the gradients that the differentiated tensors come from, as in a gradient penalty
    seeded: frozenset[int] = frozenset()  # the gradients that it started from, as in a backward pass in two halves
    wrote: set[int] = field(default_factory=set)  # the players whose parameters got a gradient
    best: frozenset[int] = frozenset()  # the passes by whose scores samples were chosen, as in top-k
    dead: frozenset[int] = frozenset()  # the positions of the terms without a gradient in the loss
    kept: bool = False  # whether the graph was kept
    second: bool = False  # whether the gradient can be differentiated again
    functional: bool = False  # whether it was returned rather than accumulated in `.grad`
    failed: str = ""  # torch's error message if it failed
    by_weights: bool = False  # whether it was returned, and by a player's weights, or by as many tensors of their shapes
    by_owners: Mapping[frozenset[int | None], int] = field(default_factory=dict)
    """Its operations by the players to whose weights they lead, where no inputs were given; None is nobody."""


@dataclass(eq=False)
class OptimizerStep(Event):
    """One step of an optimiser."""

    player: Player
    along: frozenset[int]  # the gradients that it moved along
    empty: bool  # whether no parameter had a gradient
    zero: bool  # whether all gradients were 0
    finite: bool  # whether all gradients were finite
    ascends: bool  # whether it moves up gradients of backward passes: by `maximize=True`, or negated by hand
    reached: Stack  # where the program stood
    put_back: "Write | None" = None  # by which the weights are those before an earlier step, if the optimiser's state is not


@dataclass(eq=False)
class Write(Event):
    """A player's weights were written outside its optimiser, by an operation such as `clamp_` or `copy_`."""

    player: Player
    operation: str
    bounds: tuple[Any, ...] = ()


@dataclass(eq=False)
class AverageWrite(Event):
    """A player's weights were averaged into a copy, parameter by parameter."""

    player: Player
    count: int = 1


@dataclass(eq=False)
class Wait(Event):
    """The host waited for a value: `.item()`, `.cpu()`, `float(…)`."""


@dataclass(eq=False)
class DeadTerm(Event):
    """A term without a gradient, from these passes, was added to a loss."""

    of: frozenset[int]


@dataclass(eq=False)
class Unowned(Event):
    """A network got a gradient at `loss`, and no optimiser has its parameters, whose first values are in `values`."""

    network: nn.Module
    loss: str
    values: list[Tensor]

    @property
    def stays(self) -> bool:
        """Whether its parameters are still as they were."""
        return all(bool((sample(p) == old).all()) for p, old in zip(self.network.parameters(), self.values, strict=True))


def sample(tensor: Tensor) -> Tensor:
    """Return a copy of the first values of a tensor, which tell whether it has changed."""
    return tensor.detach().flatten()[:16].clone()


def _has_modes(module: nn.Module) -> bool:
    """Return whether training mode changes a module's outputs, judged by its code: batch norm, dropout, spectral norm."""
    if isinstance(module, _InstanceNorm):
        return module.track_running_stats
    if isinstance(module, torch.jit.ScriptModule):  # its code is hidden, and its name is kept
        return any(kind in module.original_name for kind in ("Norm", "Dropout"))
    read = getattr(getattr(type(module).forward, "__code__", None), "co_names", ())
    hooks = (type(hook).__name__ for hook in module._forward_pre_hooks.values())  # older spectral norm
    return "training" in read or any("spectral" in hook.lower() for hook in hooks)
