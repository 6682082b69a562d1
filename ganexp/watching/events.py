"""What happens in a loop, as a list of events: passes, gradients, steps, and weights that are written by hand."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer


@dataclass(eq=False)
class Player:
    """What one optimiser moves. `role` is `G`, `D`, or another name for players beyond two.

    `successor` is the player that has taken over all of its weights, until it moves again.
    """

    optimizer: Optimizer | None
    role: str = ""
    successor: "Player | None" = None

    @property
    def now(self) -> "Player":
        """The player that has its weights now."""
        return self.successor.now if self.successor else self

    def parameters(self) -> list[Tensor]:
        """Return what the optimiser moves."""
        return [p for group in self.optimizer.param_groups for p in group["params"]] if self.optimizer else []


@dataclass(eq=False)
class Event:
    """Something that happened.

    Args:
        place: The line of the user's file, as `file:line`.
        activations: The most bytes that autograd kept for backward passes, weights excepted, since the event before.
    """

    place: str
    activations: int = field(default=0, kw_only=True)


@dataclass(eq=False)
class NetworkPass(Event):
    """One pass through a network.

    Args:
        number: Its number in the whole loop.
        player: Whose network it is.
        network: Which one.
        of: Numbers of the passes that its inputs come from.
        mixed: How many percent of its batch came from a network, if others were joined to them; else 0.
        attached: The players that a backward pass through its inputs reaches.
        first: The number of its first input: equal for equal values.
        latents: The number of all of its inputs, or a new one if it drew its latents itself.
        drew: Whether it drew random numbers.
        made: The numbers of what it returned.
        graph: Whether it was recorded for a backward pass.
        training: Whether the network was in training mode.
        frozen: Whether no parameter of the network wanted a gradient.
        batch_norm: Whether the network normalises over the batch.
        has_modes: Whether training mode changes what the network does.
        steps: How many steps each player had made.
        moved: Whether its inputs were moved along a gradient.
        given: Copies of its arguments, for the check.
        seeds: Gradients by what it returned, with the number of the gradient that they are part of.
        scores: Each output with a gradient by it: the numbers of that gradient and of the output, the output if it is one
            score per sample or place, and the gradient.
        is_loss: Whether it was given fakes and as many other samples, and returned single numbers.
        by_input: Gradients by its first input, with the number of the gradient that they are part of.
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
    given: Any = None
    seeds: list[tuple[int, Tensor]] = field(default_factory=list)
    scores: list[tuple[int, int, Tensor | None, Tensor]] = field(default_factory=list)
    is_loss: bool = False
    made: set[int] = field(default_factory=set)
    by_input: list[tuple[int, Tensor]] = field(default_factory=list)
    ms: float = 0.0
    operations: int = 0


@dataclass(eq=False)
class Gradient(Event):
    """One backward pass, or one call of `torch.autograd.grad`.

    Args:
        number: Its number in the whole loop.
        of: Numbers of the passes that what was differentiated comes from.
        through: Numbers of the gradients that it comes from: penalties.
        seeded: Numbers of the gradients that it was begun with, as in a backward pass in two halves.
        wrote: The players whose parameters got a gradient.
        best: Numbers of the passes by whose scores samples were chosen, as in top-k.
        kept: Whether the graph was kept.
        second: Whether the gradient can be differentiated again.
        functional: Whether it was returned, and not accumulated.
        failed: What torch said if it failed.
        by_weights: Whether it was returned, and taken by weights of a player, or by as many tensors of their shapes.
    """

    number: int
    of: frozenset[int]
    through: frozenset[int]
    seeded: frozenset[int] = frozenset()
    wrote: set[int] = field(default_factory=set)
    best: frozenset[int] = frozenset()
    kept: bool = False
    second: bool = False
    functional: bool = False
    failed: str = ""
    by_weights: bool = False
    ms: float = 0.0
    operations: int = 0


@dataclass(eq=False)
class OptimizerStep(Event):
    """One step of an optimiser.

    Args:
        player: Who moved.
        along: Numbers of the gradients that it moved along.
        empty: Whether no parameter had a gradient.
        zero: Whether all gradients were 0.
        finite: Whether all gradients were finite.
    """

    player: Player
    along: frozenset[int]
    empty: bool
    zero: bool
    finite: bool
    ms: float = 0.0


@dataclass(eq=False)
class Write(Event):
    """Weights of a player that were written outside its optimiser, by an operation such as `clamp_` or `copy_`."""

    player: Player
    operation: str
    bounds: tuple[Any, ...] = ()


@dataclass(eq=False)
class AverageWrite(Event):
    """Weights of a player that were mixed into a third copy, parameter by parameter."""

    player: Player
    count: int = 1


@dataclass(eq=False)
class Wait(Event):
    """The host waited for a value: `.item()`, `.cpu()`, `float(…)`."""
