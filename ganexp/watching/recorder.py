"""Records the events of a loop by hooks that torch offers, and takes all of them away at the end."""

import copy
import gc
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ganexp.watching.events import Event, Gradient, NetworkPass, OptimizerStep, Player, Wait, Write
from ganexp.watching.flow import Flow, key, tensors

OURS = (os.path.dirname(torch.__file__), os.path.dirname(__file__), "<", os.path.dirname(os.__file__))


def place() -> str:
    """Return `file:line` of the innermost line that is neither torch's nor ours."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OURS):
        frame = frame.f_back  # type: ignore[assignment]
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else "?"


class Recorder:
    """Events of a loop between `start` and `stop`.

    Args:
        networks: The networks of G and of D, if they are known; else networks belong to the optimiser that moves them.
        optimizers: Those of G and of D, if they are known; else those that exist.
        on_step: Called before each step with the player, and may raise to end the loop.
    """

    def __init__(
        self,
        networks: tuple[list[nn.Module], list[nn.Module]] | None = None,
        optimizers: tuple[list[Optimizer], list[Optimizer]] | None = None,
        on_step: Callable[[Player], None] = lambda player: None,
    ) -> None:
        self.networks = networks
        self.events: list[Event] = []
        self.players: dict[int, Player] = {}
        self.on_step = on_step
        self.copies: dict[nn.Module, tuple[nn.Module, Optimizer] | None] = {}
        self.after: dict[int, list[Tensor]] = {}
        self.first_done = False
        self.random = self.changed = False
        self.flow = Flow(self)
        self._latents: list[tuple[int, Tensor]] = []
        self._moved: list[Player] = []
        self._steps: dict[int, int] = {}
        self._running: list[tuple[nn.Module, Any]] = []
        self._gradient: Gradient | None = None
        self._in_step: Optimizer | None = None
        self._began = 0.0
        self._about_to_move: OptimizerStep | None = None  # None while a closure has still to be called
        self._owners: dict[int, int] = {}
        self._passes = 0
        self._gradients = 0
        self._away: list[Callable[[], None]] = []
        self._anonymous = optimizers is None
        for role, group in zip("GD", optimizers or (), strict=False):
            for one in group:
                self._own(one, role)
        if networks and optimizers:
            for role, known in zip("GD", networks, strict=True):
                for player in self.players.values():
                    if player.role == role:
                        player.networks += known

    def start(self) -> Self:
        """Begin to listen."""
        hooks = torch.nn.modules.module
        handles = [
            hooks.register_module_forward_pre_hook(self._before_pass),
            hooks.register_module_forward_hook(self._after_pass, with_kwargs=True, always_call=True),
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        self._away += [handle.remove for handle in handles]
        engine = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

        def watched(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            return self._differentiate(engine, outputs, *args, **kwargs)

        torch.autograd._engine_run_backward = watched  # type: ignore[attr-defined, assignment]
        self._away.append(lambda: setattr(torch.autograd, "_engine_run_backward", engine))
        if self._anonymous:
            self._find_optimizers()
            init = Optimizer.__init__

            def found(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
                init(optimizer, *args, **kwargs)
                self._own(optimizer)

            Optimizer.__init__ = found  # type: ignore[method-assign, assignment]
            self._away.append(lambda: setattr(Optimizer, "__init__", init))
        warnings.filterwarnings("ignore", message="Using `torch.compile")  # of hooks on all modules, which are ours
        silence = warnings.filters[0]
        self._away.append(lambda: _removed(silence))
        self.flow.__enter__()
        return self

    def stop(self) -> None:
        """Take every hook away."""
        self.flow.__exit__(None, None, None)
        while self._away:
            self._away.pop()()

    def _find_optimizers(self) -> None:
        for one in gc.get_objects():
            if issubclass(type(one), Optimizer) and hasattr(one, "param_groups"):
                self._own(one)

    def _own(self, optimizer: Optimizer, role: str = "") -> None:
        player = self.players.setdefault(id(optimizer), Player(optimizer, role))
        for p in player.parameters():
            self._owners.setdefault(id(p), id(optimizer))
            self.flow.weights.add(key(p))

    def _player_of(self, network: nn.Module) -> Player | None:
        """Return whose network it is: None if it is nobody's, or a container of several players' networks."""
        if self.networks is not None:
            for role, known in zip("GD", self.networks, strict=True):
                if any(_unwrapped(network) is _unwrapped(one) for one in known):
                    return self._given(network, role)
            return None
        owners = {self._owners.get(id(p)) for p in network.parameters()}
        owners.discard(None)
        if len(owners) != 1:
            return None
        player = self.players[owners.pop()]  # type: ignore[index]
        if _unwrapped(network) not in player.networks:
            player.networks.append(_unwrapped(network))
        return player

    def _given(self, network: nn.Module, role: str) -> Player:
        parameters = {id(p) for p in network.parameters()}
        players = [one for one in self.players.values() if one.role == role]
        for player in players:
            if any(id(p) in parameters for p in player.parameters()):
                return player
        return players[0] if players else self.players.setdefault(-ord(role), Player(None, role, [network]))

    def _before_pass(self, network: nn.Module, args: Any) -> None:
        if self._running or self._gradient:
            return
        player = self._player_of(network)
        if player is None:
            return
        if not self.first_done and _unwrapped(network) not in self.copies:
            with self.flow.paused():
                self.copies[_unwrapped(network)] = _copied(_unwrapped(network), player)
        self._running.append((network, (player, self.flow.operations, time.perf_counter())))

    def _after_pass(self, network: nn.Module, args: Any, kwargs: Any, made: Any) -> None:
        if not self._running or self._running[-1][0] is not network:
            return
        _, (player, operations, began) = self._running.pop()
        if made is None:  # it has failed
            return
        ms = 1000 * (time.perf_counter() - began)
        labels = self.flow.labels((args, kwargs))
        with self.flow.paused(), torch.no_grad():
            of = frozenset(number for kind, number in labels if kind == "pass")
            inputs = [*tensors((args, kwargs))]
            parameters = [*network.parameters()]
            self._passes += 1
            seen = NetworkPass(
                place(),
                self._passes,
                player,
                _unwrapped(network),
                of,
                ("mixed", 0) in labels,
                self._reached(inputs),
                self._latents_of(inputs),
                any(one.requires_grad for one in tensors(made)),
                network.training,
                bool(parameters) and not any(p.requires_grad for p in parameters),
                any(isinstance(one, _BatchNorm) for one in network.modules()),
                dict(self._steps),
                ms=ms,
                operations=self.flow.operations - operations,
            )
            if not self.first_done:
                given = (*args, *kwargs.values())
                seen.given = tuple(one.detach().clone() if isinstance(one, Tensor) else one for one in given)
            seen.whole = self._is_whole(seen, inputs)
            self._listen(seen, made)
            self._listen_to_reversal(seen, inputs)
            self.flow.put(tensors(made), frozenset({("pass", seen.number)}))
            if not self.first_done:
                seen.made = [one.detach().clone() for one in tensors(made)]
            self.events.append(seen)

    def _is_whole(self, seen: NetworkPass, inputs: list[Tensor]) -> bool:
        """Return whether the first input equals what the pass that it comes from returned."""
        sources = [one for one in self.events if isinstance(one, NetworkPass) and one.number in seen.of]
        made = [t for one in sources for t in one.made]
        return not inputs or not sources or any(t.shape == inputs[0].shape and torch.equal(t, inputs[0]) for t in made)

    def _listen(self, seen: NetworkPass, made: Any) -> None:
        for one in tensors(made):
            if one.requires_grad and one.grad_fn is not None:
                one.register_hook(lambda seed: self._seed(seen, seed))

    def _seed(self, seen: NetworkPass, seed: Tensor) -> None:
        if self._gradient is not None:
            with self.flow.paused():
                seen.seeds.append((self._gradient.number, seed.detach().clone()))

    def _listen_to_reversal(self, seen: NetworkPass, inputs: list[Tensor]) -> None:
        """Compare, in the backward pass, the gradient by a fake where D is given it and where G has made it."""
        sources = [one for one in self.events if isinstance(one, NetworkPass) and one.number in seen.of]
        if not sources or not inputs or not inputs[0].requires_grad or inputs[0].is_leaf:
            return

        def compare(seed: Tensor) -> None:
            if self._gradient is not None:
                seen.by_input.append((self._gradient.number, seed.detach()))

        inputs[0].register_hook(compare)

    def _latents_of(self, inputs: list[Tensor]) -> int:
        if not inputs:
            return 0
        given = inputs[0].detach()
        for number, known in self._latents:
            if known.shape == given.shape and known.dtype == given.dtype and torch.equal(known, given):
                return number
        self._latents.append((len(self._latents) + 1, given.clone()))
        return len(self._latents)

    def _reached(self, inputs: Iterable[Tensor]) -> set[int]:
        """Return the players whose parameters a backward pass through tensors reaches."""
        todo: list[Any] = [one.grad_fn for one in inputs if one.grad_fn is not None]
        known, found = set[Any](), set[int]()
        while todo:
            node = todo.pop()
            if node is None or node in known:
                continue
            known.add(node)
            variable = getattr(node, "variable", None)
            if variable is not None and id(variable) in self._owners:
                found.add(self._owners[id(variable)])
            todo += [one for one, _ in node.next_functions]
        return found

    def _differentiate(self, engine: Callable[..., Any], outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if self._gradient is not None:  # a checkpoint's own backward pass
            return engine(outputs, *args, **kwargs)
        kept, second, inputs = args[1], args[2], args[3]
        accumulates = kwargs.get("accumulate_grad", False)
        labels = self.flow.labels([one for one in outputs if isinstance(one, Tensor)])
        self._gradients += 1
        seen = Gradient(
            place(),
            self._gradients,
            frozenset(n for kind, n in labels if kind == "pass"),
            frozenset(n for kind, n in labels if kind == "gradient"),
            frozenset(n for kind, n in self.flow.labels(args[0]) if kind == "gradient"),
            kept=bool(kept),
            second=bool(second),
            functional=not accumulates,
        )
        self.events.append(seen)
        before = {id(p): _state(p) for player in self.players.values() for p in player.parameters()} if accumulates else {}
        self._gradient = seen
        operations, began = self.flow.operations, time.perf_counter()
        try:
            with self.flow.paused():
                made = engine(outputs, *args, **kwargs)
        except RuntimeError as error:
            seen.failed = str(error)
            raise
        finally:
            self._gradient = None
            seen.ms = 1000 * (time.perf_counter() - began)
            seen.operations = self.flow.operations - operations
        with self.flow.paused():
            self._note_written(seen, before, inputs, made)
        return made

    def _note_written(self, seen: Gradient, before: dict[int, Any], inputs: Any, made: Any) -> None:
        own = ("gradient", seen.number)
        if seen.functional:
            seen.wrote = {self._owners[id(one)] for one in inputs if id(one) in self._owners}
            seen.by = {id(one) for one in inputs}
            for one in tensors(made):
                self.flow.put([one], frozenset({own}))
            return
        for number, player in self.players.items():
            for p in player.parameters():
                if p.grad is not None and before.get(id(p)) != _state(p):
                    old = frozenset(one for one in self.flow.labels(p.grad) if one[0] == "gradient")
                    self.flow.gradients.add(key(p.grad))
                    fresh = before.get(id(p)) is None
                    self.flow.put([p.grad], frozenset({own}) if fresh else old | {own})
                    if bool(p.grad.any()):
                        seen.wrote.add(number)

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._anonymous:
            self._own(optimizer)
        player = self.players.get(id(optimizer))
        if player is None:
            self._in_step = optimizer
            return
        self._end_first(player)
        self.on_step(player)
        self._in_step, self._began = optimizer, time.perf_counter()
        has_closure = any(callable(one) for one in (*args[1:], *kwargs.values()))  # args begin with the optimiser
        self._about_to_move = None if has_closure else self._moving(player)

    def _end_first(self, player: Player) -> None:
        """End the first iteration, which is the one that is checked, where its first player moves again after another."""
        self._moved.append(player)
        others = [one for one in self._moved if one is not self._moved[0]]
        self.first_done = self.first_done or bool(others and player is self._moved[0])

    def _moving(self, player: Player) -> OptimizerStep:
        with self.flow.paused():
            gradients = [p.grad for p in player.parameters() if p.grad is not None]
            labels = self.flow.labels(gradients)
            return OptimizerStep(
                place(),
                player,
                frozenset(n for kind, n in labels if kind == "gradient"),
                not gradients,
                not any(bool(one.any()) for one in gradients),
                all(bool(one.isfinite().all()) for one in gradients),
            )

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        player = self.players.get(id(optimizer))
        if player is None or self._in_step is not optimizer:
            self._in_step = None
            return
        step = self._about_to_move or self._moving(player)
        self._in_step = None
        step.ms = 1000 * (time.perf_counter() - self._began)
        self.events.append(step)
        number = id(optimizer)
        self._steps[number] = self._steps.get(number, 0) + 1
        if not self.first_done:
            self.after = {n: [p.detach().clone() for p in one.parameters()] for n, one in self.players.items()}

    def written(self, memory: int, operation: str, bounds: tuple[Any, ...]) -> None:
        """Note weights that are written outside steps."""
        if self._in_step is not None or self._gradient is not None or self._running:
            return
        for player in self.players.values():
            if any(key(p) == memory for p in player.parameters()):
                last = self.events[-1] if self.events else None
                if not (isinstance(last, Write) and last.player is player and last.operation == operation):
                    self.events.append(Write(place(), player, operation, bounds))

    def rescaled(self) -> None:
        """Note that gradients are changed between a backward pass and a step, as in clipping."""
        self.changed = self.changed or (self._in_step is None and not self.first_done)

    def drew(self) -> None:
        """Note that a network draws random numbers in its pass, which another run of it draws anew."""
        self.random = self.random or bool(self._running)

    def waited(self) -> None:
        """Note that the host waits, unless torch itself does so in scaling gradients."""
        if self._in_step is None and self._gradient is None:
            frame = sys._getframe(1)
            while frame is not None:
                if "grad_scaler" in frame.f_code.co_filename:
                    return
                frame = frame.f_back  # type: ignore[assignment]
            self.events.append(Wait(place()))


def _unwrapped(network: nn.Module) -> nn.Module:
    """Return the network inside DDP, DataParallel or torch.compile."""
    while True:
        inner = getattr(network, "_orig_mod", None)
        if inner is None and type(network).__name__ in ("DataParallel", "DistributedDataParallel"):
            inner = network.module
        if not isinstance(inner, nn.Module):
            return network
        network = inner


def _state(p: Tensor) -> tuple[int, int] | None:
    return None if p.grad is None else (id(p.grad), p.grad._version)


def _copied(network: nn.Module, player: Player) -> tuple[nn.Module, Optimizer] | None:
    """Return a network before its first pass, and its optimiser, tied to one another as they are; None if they have no copy."""
    if player.optimizer is None:
        return None
    try:
        return copy.deepcopy((network, player.optimizer))
    except Exception:  # anything may be in a module; then nothing is checked
        return None


def _removed(silence: Any) -> None:
    if silence in warnings.filters:
        warnings.filters.remove(silence)  # type: ignore[attr-defined]
