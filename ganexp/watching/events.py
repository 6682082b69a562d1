"""Events of a loop: passes, gradients, optimiser steps, writes to weights, and waits of the host."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from ganexp.watching.turns import Stack


@dataclass(eq=False)
class Player:
    """The owner of the weights that an optimiser moves. `role` is `G`, `D`, or another name for players beyond two.

    `successor` is the player that has taken over all of its weights, until it moves again. `outside` is a line that multiplies
    by its weights without calling a module, so that no pass is seen.
    """

    optimizer: Optimizer | None
    role: str = ""
    successor: "Player | None" = None
    outside: str = ""

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
    """An event of the loop.

    Args:
        place: The line of the user's file, as `file:line`.
        activations: The most bytes that autograd kept for backward passes since the event before, without weights.
        position: The number of events before it.
        ms: Its time on the host, in milliseconds.
        operations: Its operations of matrix products and convolutions.
    """

    place: str
    activations: int = field(default=0, kw_only=True)
    position: int = field(default=0, kw_only=True)
    ms: float = field(default=0.0, kw_only=True)
    operations: int = field(default=0, kw_only=True)


@dataclass(eq=False)
class NetworkPass(Event):
    """One pass through a network.

    Args:
        number: Its number in the whole loop.
        player: The network's player.
        network: The network.
        of: Numbers of the passes that its inputs come from.
        mixed: The percentage of its batch that came from a network, if other samples were joined to it; else 0.
        attached: The players that a backward pass through its inputs reaches.
        first: The number of its first input: equal for equal values.
        latents: The number of all of its inputs, or a new number if it drew its latents itself.
        drew: Whether it drew random numbers.
        outputs: The numbers of its outputs.
        given: The address of its first input, as `instruments.counting.key` has it.
        made: The addresses of its outputs.
        graph: Whether it was recorded for a backward pass.
        training: Whether the network was in training mode.
        frozen: Whether no parameter of the network requires a gradient.
        batch_norm: Whether the network normalises over the batch.
        has_modes: Whether training mode changes the network's outputs.
        steps: The number of steps that each player had made.
        moved: Whether its inputs were moved along a gradient.
        arguments: Copies of its arguments, for the comparison with a strategy.
        before: The modes of the network and the random state before it, for the same comparison.
        scores: For each output that got a gradient: the number of the backward pass, the number of the output, the output if it
            is one score per sample or place, and the gradient.
        is_loss: Whether its inputs were fakes and as many other samples, and its outputs single numbers.
        by_input: Gradients with respect to its first input, each with the number of the backward pass that computed it.
        low, high: The least and the largest value of its first input.
        ends: The function that its first output with a gradient ends in: `sigmoid`, `softmax` or `tanh`; empty for others.
        logits: The line of a loss that takes for logits what ends in a sigmoid or softmax.
        alone: Why its gradients are those of this process alone though other networks' are averaged; empty if they are not.
    """

    number: int
    player: Player
    network: nn.Module
    of: frozenset[int]
    mixed: int
    attached: set[int]
    first: int
    latents: int
    drew: bool
    graph: bool
    training: bool
    frozen: bool
    batch_norm: bool
    has_modes: bool
    steps: dict[int, int]
    moved: bool = False
    arguments: Any = None
    before: Any = None
    scores: list[tuple[int, int, Tensor | None, Tensor]] = field(default_factory=list)
    is_loss: bool = False
    outputs: set[int] = field(default_factory=set)
    given: int = 0
    made: set[int] = field(default_factory=set)
    by_input: list[tuple[int, Tensor]] = field(default_factory=list)
    low: float = 0.0
    high: float = 0.0
    ends: str = ""
    logits: str = ""
    alone: str = ""

    @property
    def seeds(self) -> list[tuple[int, Tensor]]:
        """Gradients with respect to its outputs, each with the number of the backward pass that computed it."""
        return [(number, seed) for number, _, _, seed in self.scores]


@dataclass(eq=False)
class Gradient(Event):
    """One backward pass, or one call of `torch.autograd.grad`.

    Args:
        number: Its number in the whole loop.
        of: Numbers of the passes that the differentiated tensors come from.
        through: Numbers of the gradients that the differentiated tensors come from, as in a gradient penalty.
        seeded: Numbers of the gradients that it started from, as in a backward pass in two halves.
        wrote: The players whose parameters got a gradient.
        best: Numbers of the passes by whose scores samples were chosen, as in top-k.
        dead: The positions of the terms without a gradient in the loss.
        kept: Whether the graph was kept.
        second: Whether the gradient can be differentiated again.
        functional: Whether it was returned rather than accumulated in `.grad`.
        failed: Torch's error message if it failed.
        by_weights: Whether it was returned, and is with respect to a player's weights, or to as many tensors of their shapes.
        by_owners: Its operations by the players to whose weights they lead, where no inputs were given; None is nobody.
    """

    number: int
    of: frozenset[int]
    through: frozenset[int]
    seeded: frozenset[int] = frozenset()
    wrote: set[int] = field(default_factory=set)
    best: frozenset[int] = frozenset()
    dead: frozenset[int] = frozenset()
    kept: bool = False
    second: bool = False
    functional: bool = False
    failed: str = ""
    by_weights: bool = False
    by_owners: Mapping[frozenset[int | None], int] = field(default_factory=dict)


@dataclass(eq=False)
class OptimizerStep(Event):
    """One step of an optimiser.

    Args:
        player: The player that moved.
        along: Numbers of the gradients that it moved along.
        empty: Whether no parameter had a gradient.
        zero: Whether all gradients were 0.
        finite: Whether all gradients were finite.
        ascends: Whether it moves up along the gradients of backward passes: by `maximize=True`, or negated by hand.
        put_back: The write by which the weights are those before an earlier step, if the optimiser's state is not.
        reached: Where the program stood.
    """

    player: Player
    along: frozenset[int]
    empty: bool
    zero: bool
    finite: bool
    ascends: bool = False
    put_back: "Write | None" = None
    reached: Stack = ()


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
