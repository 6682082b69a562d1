"""States of a loop's networks and optimisers at the beginnings of its turns, for the comparison with a strategy."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

from ganexp.watching.events import Event, NetworkPass, OptimizerStep, Player, Write
from ganexp.watching.places import Stack
from ganexp.watching.players import Players, unwrapped
from ganexp.watching.turns import Turn

KEPT, ALIKE, MOST = 5, 4, 24
"""States that are kept at most, rounds with the same steps after which no more are taken, and all that are taken at most."""


class _Copy:
    """A tensor's values in the host's memory."""

    def __init__(self, tensor: Tensor) -> None:
        self.device, self.values = tensor.device, tensor.detach().to("cpu", copy=True)

    def again(self) -> Tensor:
        return self.values.to(self.device, copy=True)


def _copies(tree: Any) -> Any:
    return tree_map(lambda leaf: _Copy(leaf) if isinstance(leaf, Tensor) else leaf, tree)


def _again(tree: Any) -> Any:
    return tree_map(lambda leaf: leaf.again() if isinstance(leaf, _Copy) else leaf, tree)


@dataclass
class State:
    """What a step may change, before one turn."""

    events: int  # the number of events before it
    weights: dict[int, _Copy] = field(default_factory=dict)  # parameters by id
    buffers: dict[nn.Module, dict[str, _Copy]] = field(default_factory=dict)  # of each module by name
    optimizers: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    """The options and the state of each optimiser, by id. One that was made later has begun without a state."""

    def keep_network(self, network: nn.Module) -> None:
        """Add what a network holds and is not held yet, and its buffers, which any pass may have changed."""
        for p in network.parameters():
            if id(p) not in self.weights:
                self.weights[id(p)] = _Copy(p)
        for module in network.modules():
            self.buffers[module] = {name: _Copy(buffer) for name, buffer in module._buffers.items() if buffer is not None}

    def keep_player(self, player: Player) -> None:
        """Copy what a player moves, and the state of its optimiser."""
        self.weights |= {id(p): _Copy(p) for p in player.parameters()}
        if player.optimizer is not None:
            groups = player.optimizer.param_groups
            options = [{name: _copies(value) for name, value in group.items() if name != "params"} for group in groups]
            state = {p: _copies(values) for p, values in player.optimizer.state.items()}
            self.optimizers[id(player.optimizer)] = options, state

    def put_back(self, networks: Iterable[nn.Module], optimizers: Iterable[Optimizer]) -> None:
        """Give networks and optimisers this state."""
        for network in networks:
            for p in network.parameters():
                if id(p) in self.weights:
                    p.data.copy_(self.weights[id(p)].values)
                p.grad = None
            for module in network.modules():
                module._buffers.update({name: copy.again() for name, copy in self.buffers.get(module, {}).items()})
        for optimizer in optimizers:
            options, state = self.optimizers.get(id(optimizer), ((), {}))
            for group, saved in zip(optimizer.param_groups, options, strict=False):
                group.update(_again(saved))
            optimizer.state.clear()
            optimizer.state.update({p: _again(values) for p, values in state.items()})


class BeforePass:
    """The state of a network before a pass that an update learns from: modes, frozen parameters, random state and autocast."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.modes = [module.training for module in network.modules()]
        self.learns = [p.requires_grad for p in network.parameters()]
        self.device = next((p.device.type for p in network.parameters()), "cpu")
        self.random = torch.get_rng_state()
        self.random_on_gpu = torch.cuda.get_rng_state_all() if self.device == "cuda" else []
        self.narrow = torch.get_autocast_dtype(self.device) if torch.is_autocast_enabled(self.device) else None

    @contextmanager
    def again(self, *, drew: bool) -> Iterator[None]:
        """Give the network these modes and, if it `drew`, torch's random numbers of this pass."""
        for module, mode in zip(self.network.modules(), self.modes, strict=False):
            module.training = mode
        if drew:
            torch.set_rng_state(self.random)
            if self.random_on_gpu:
                torch.cuda.set_rng_state_all(self.random_on_gpu)
        with torch.autocast(self.device, self.narrow, enabled=self.narrow is not None):
            yield


class Snapshots:
    """Keeps the last states before turns of a loop, and the arguments of the passes since the first of these.

    They are taken before the first pass after a step, and kept where the next step begins a turn, or where a player moves again
    after another one, as in a look ahead. Once some of these rounds have been alike, no more are taken. `turns` counts the
    turns that are complete; the loop has been seen from `began` to `ended`, of `time.monotonic`.
    """

    def __init__(self, players: Players, events: Sequence[Event]) -> None:
        self.players, self.events = players, events
        self.states: list[State] = []
        self.turns = 0
        self.began = self.ended = 0.0
        self.done = False
        self._networks: list[nn.Module] = []
        self._turn = Turn()
        self._pending: State | None = None
        self._rounds: list[tuple[Player, ...]] = [()]  # the steps between states
        self._taken = 0

    def before_pass(self, network: nn.Module) -> BeforePass | None:
        """Take a state before the first pass since a step, and return the network's own state."""
        self.began = self.began or time.monotonic()
        if self.done:
            return None
        network = unwrapped(network)
        self._take_after_step()
        if network not in self._networks:
            self._networks.append(network)
            (self._pending or self.states[-1]).keep_network(network)
        if not self.states:
            self._keep()
        return BeforePass(network)

    def before_step(self, player: Player, reached: Stack) -> None:
        """Keep the last state if a turn may begin with this step."""
        self._turn.steps = {(moved.now, place): None for moved, place in self._turn.steps}  # optimisers may be made anew
        begins = self._turn.begins(player, reached)
        self.turns += begins
        steps = [moved.now for moved in self._rounds[-1]]
        if not self.done and (begins or (player in steps and steps[-1] is not player)):
            self._take_after_step()  # a step may come before any pass
            self._keep()
            alike = self._rounds[-ALIKE:]
            self.done = self._taken > MOST or (len(alike) == ALIKE and len({*alike}) == 1 and len({*alike[0]}) > 1)
            self._rounds.append(())
        self._rounds[-1] += (player,)

    def end(self) -> None:
        """Keep the state at the end of the loop."""
        self.ended = time.monotonic()
        if not self.done and self.states:
            self._pending = self._take(self._pending or self.states[-1])
            self._keep()

    def before(self, after: int, passed: int) -> State | None:
        """Return the last state after the event at one index, and not after that at another."""
        return next((state for state in reversed(self.states) if after < state.events <= passed), None)

    def clear(self) -> None:
        """Forget all states."""
        self.states.clear()
        self._networks.clear()
        self._pending = None

    def _take_after_step(self) -> None:
        last = self._pending or (self.states[-1] if self.states else None)
        if last is None or any(isinstance(event, OptimizerStep) for event in self.events[last.events :]):
            self._pending = self._take(last)

    def _take(self, last: State | None) -> State:
        """Copy what has changed since another state, and share the rest with it."""
        self._taken += 1
        state = State(len(self.events))
        moved = [*self.players.values()]
        if last is not None:
            state = State(len(self.events), {**last.weights}, {**last.buffers}, {**last.optimizers})
            since = [event.player for event in self.events[last.events :] if isinstance(event, OptimizerStep | Write)]
            changed = set[int]().union(*(player.ids for player in since))
            moved = [player for player in moved if id(player.optimizer) not in state.optimizers or changed & player.ids]
        for player in moved:
            state.keep_player(player)
        for network in self._networks:
            state.keep_network(network)
        return state

    def _keep(self) -> None:
        if self._pending is None:
            return
        self.states.append(self._pending)
        self._pending = None
        if len(self.states) > KEPT:
            del self.states[0]
            for event in self.events[: self.states[0].events]:
                if isinstance(event, NetworkPass):
                    event.arguments = event.before = None
