"""What a loop calls its networks and optimisers, for the lines that try another rule in it."""

from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any

from torch import nn
from torch.optim import Optimizer

from ganexp.watching.players import Players, unwrapped

DEFAULTS = {"G": ("G", "optimizer_G"), "D": ("D", "optimizer_D")}
"""The names of each player's network and optimiser where the loop's own are not known."""


def named_in(frame: FrameType | None) -> dict[str, Any]:
    """Return the networks and optimisers that a frame has names for, its own object's attributes among them."""
    variables = {**frame.f_globals, **frame.f_locals} if frame is not None else {}
    own = variables.pop("self", None)
    held = {**getattr(own, "__dict__", {}), **getattr(own, "_modules", {})}
    both = {f"self.{name}": value for name, value in held.items()} | variables
    return {name: value for name, value in both.items() if issubclass(type(value), nn.Module | Optimizer)}


def by_object(named: Mapping[str, Any]) -> dict[int, str]:
    """Return the names of networks, their parts and optimisers by their `id`."""
    names = {id(unwrapped(value) if isinstance(value, nn.Module) else value): name for name, value in named.items()}
    for name, value in named.items():  # a list of discriminators is not run itself
        for module in value.modules() if isinstance(value, nn.Module) else ():
            names.setdefault(id(module), name)
    return names


def arguments(players: Players, names: Mapping[int, str], networks: Iterable[tuple[str, nn.Module]]) -> list[str]:
    """Return the first four arguments of `Game` by the loop's own names, of the networks that it has run by their roles."""
    run = [*dict.fromkeys((role, names.get(id(unwrapped(network)), "")) for role, network in networks)]
    of_optimizers = [(player.role, names.get(id(player.optimizer), "")) for player in players.values() if player.now is player]
    listed = []
    for number, named in enumerate((run, of_optimizers)):
        for role in "GD":
            own = [name for of, name in named if of == role and name]
            listed.append(f"[{', '.join(own)}]" if len(own) > 1 else "".join(own) or DEFAULTS[role][number])
    return listed
