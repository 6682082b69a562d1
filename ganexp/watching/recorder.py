"""Records the events of a loop by hooks that torch offers, and takes all of them away at the end."""

import inspect
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import takewhile
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ganexp.instruments.counting import LiveActivations, key
from ganexp.watching.events import AverageWrite, Event, Gradient, NetworkPass, OptimizerStep, Player, Wait, Write
from ganexp.watching.flow import Flow, tensors
from ganexp.watching.players import Players, unwrapped
from ganexp.watching.snapshots import Snapshots
from ganexp.watching.values import Values

OURS = (os.path.dirname(torch.__file__), os.path.dirname(__file__), "<", os.path.dirname(os.__file__))
INSTALLED = ("site-packages", "dist-packages")
SILENT = ("grad_scaler", os.path.join("torch", "utils", "data"))
"""Files of torch in which values are read that no line of the user's could read less often."""


def place() -> str:
    """Return `file:line` of the user's innermost line, or else of that of an installed package, torch and this one aside."""
    frame, found = sys._getframe(1), ""
    while frame is not None:
        file = frame.f_code.co_filename
        own = not any(one in file for one in INSTALLED)
        if not file.startswith(OURS) and (own or not found):
            found = f"{os.path.basename(file)}:{frame.f_lineno}"
            if own:
                break
        frame = frame.f_back  # type: ignore[assignment]
    return found or "?"


class Recorder:
    """Events of a loop between `start` and `stop`. `unlike` says why another run from the same samples would differ.

    Args:
        players: Those that are known already.
        on_step: Called before each step with the player, and may raise to end the loop.
    """

    def __init__(self, players: Players, on_step: Callable[[Player], None] = lambda player: None) -> None:
        self.players = players
        self.on_step = on_step
        self.events: list[Event] = []
        self.snapshots = Snapshots(players)
        self.unlike = ""
        self.compiled = False
        self.flow = Flow(self, players.memory)
        self.activations = LiveActivations(players.memory)
        self._values = Values()
        self._steps: dict[int, int] = {}
        self._running: list[tuple[nn.Module, Any]] = []
        self._drew = False  # in the pass that is running
        self._gradient: Gradient | None = None
        self._in_step: Optimizer | None = None
        self._began = 0.0
        self._about_to_move: OptimizerStep | None = None  # None while a closure has still to be called
        self._passes = 0
        self._gradients = 0
        self._away: list[Callable[[], object]] = []

    def _note(self, event: Event) -> None:
        event.activations, self.activations.peak = self.activations.peak, self.activations.now
        self.events.append(event)

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
        for marks in (hooks._global_forward_hooks_always_called, hooks._global_forward_hooks_with_kwargs):
            self._away.append(partial(marks.pop, handles[1].id, None))  # which torch does not remove with the handle
        engine = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

        def watched(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            return self._differentiate(engine, outputs, *args, **kwargs)

        torch.autograd._engine_run_backward = watched  # type: ignore[attr-defined, assignment]
        self._away.append(lambda: setattr(torch.autograd, "_engine_run_backward", engine))
        if self.players.anonymous:
            self.players.find()
            init = Optimizer.__init__

            def found(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
                init(optimizer, *args, **kwargs)
                self.players.own(optimizer)

            Optimizer.__init__ = found  # type: ignore[method-assign, assignment]
            self._away.append(lambda: setattr(Optimizer, "__init__", init))
        warnings.filterwarnings("ignore", message="Using `torch.compile")  # of hooks on all modules, which are ours
        silence = warnings.filters[0]
        self._away.append(lambda: _removed(silence))
        disabled = torch.autograd.graph.disable_saved_tensors_hooks  # called by torch.func, fails where there are some
        torch.autograd.graph.disable_saved_tensors_hooks = lambda message: self._unhooked(disabled(message))  # type: ignore[assignment]
        self._away.append(lambda: setattr(torch.autograd.graph, "disable_saved_tensors_hooks", disabled))
        self.flow.__enter__()
        self.activations.__enter__()
        return self

    @contextmanager
    def _unhooked(self, disabled: AbstractContextManager[None]) -> Iterator[None]:
        self.activations.__exit__()
        try:
            with disabled:
                yield
        finally:
            self.activations.__enter__()

    def stop(self) -> None:
        """Take every hook away."""
        try:
            self.snapshots.end(len(self.events))
        finally:
            self._leave()
        if torch.distributed.is_available() and torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
            self.unlike = "gradients are averaged over processes, of which this is one"

    def _leave(self) -> None:
        self.activations.__exit__()
        self.flow.__exit__(None, None, None)
        while self._away:
            self._away.pop()()

    def _before_pass(self, network: nn.Module, args: Any) -> None:
        self.flow.stepping = False
        if self._running or self._gradient:
            return
        player = self.players.of(network)
        if player is None:
            return
        self._look_for_replaced(player)
        with self.flow.paused():
            self.snapshots.before_pass(network, player)
        self._drew = False
        self._running.append((network, (player, self.flow.operations, time.perf_counter())))

    def _after_pass(self, network: nn.Module, args: Any, kwargs: Any, made: Any = None) -> None:
        if not self._running or self._running[-1][0] is not network:
            return
        _, (player, operations, began) = self._running.pop()
        if made is None:  # it has failed, and torch has given no kwargs
            return
        ms = 1000 * (time.perf_counter() - began)
        self.compiled |= hasattr(network, "_orig_mod")
        labels = self.flow.labels((args, kwargs))
        with self.flow.paused(), torch.no_grad():
            of = frozenset(number for kind, number in labels if kind == "pass")
            inputs = [*tensors((args, kwargs))]
            parameters = [*network.parameters()]
            drawn_inside = self._drew and not any(one.is_floating_point() for one in inputs)
            self._passes += 1
            seen = NetworkPass(
                place(),
                self._passes,
                player,
                unwrapped(network),
                of,
                self.flow.mixed(inputs),
                self.players.reached(inputs),
                self._values.of_all(inputs[:1]),
                self._values.of_all([] if drawn_inside else inputs),
                self._drew,
                any(one.requires_grad for one in tensors(made)),
                network.training,
                bool(parameters) and not any(p.requires_grad for p in parameters),
                any(isinstance(one, _BatchNorm) for one in network.modules()),
                any(map(_has_modes, network.modules())),
                dict(self._steps),
                any(kind == "gradient" for kind, _ in labels),
                ms=ms,
                operations=self.flow.operations - operations,
            )
            if not self.snapshots.done:
                arguments = _in_order(unwrapped(network), args, kwargs) if kwargs else args
                seen.given = tuple(one.detach().clone() if isinstance(one, Tensor) else one for one in arguments)
            seen.is_loss = self._is_loss(inputs, made)
            seen.made = {self._values.number(one) for one in tensors(made)}
            self._listen(seen, made, {one.shape for one in inputs})
            self._listen_to_reversal(seen, inputs)
            given = {key(one) for one in inputs}  # a network may return its input beside its scores
            self.flow.put((one for one in tensors(made) if key(one) not in given), frozenset({("pass", seen.number)}))
            self._note(seen)

    def _is_loss(self, inputs: list[Tensor], made: Any) -> bool:
        """Return whether a module was given several fakes and as many other samples, and returned single numbers."""
        shapes: dict[bool, set[torch.Size]] = {True: set(), False: set()}
        for one in inputs:
            shapes[any(kind == "pass" for kind, _ in self.flow.labels(one))].add(one.shape)
        several = any(len(shape) > 0 and shape[0] > 1 for shape in shapes[True] & shapes[False])
        return several and {one.numel() for one in tensors(made)} == {1}

    def _listen(self, seen: NetworkPass, made: Any, shapes: set[torch.Size]) -> None:
        """Keep the gradients by what a network returns: reconstructions, of an input's shape, and classes are no scores."""
        for number, one in enumerate(tensors(made)):
            if one.requires_grad and one.grad_fn is not None:
                is_score = one.shape not in shapes and (one.dim() < 2 or one.shape[1] == 1)
                score = one.detach().clone() if is_score else None
                one.register_hook(partial(self._seed, seen, number, score))

    def _seed(self, seen: NetworkPass, number: int, score: Tensor | None, seed: Tensor) -> None:
        if self._gradient is not None:
            with self.flow.paused():
                seed = seed.detach().clone()
                seen.seeds.append((self._gradient.number, seed))
                seen.scores.append((self._gradient.number, number, score, seed))

    def _listen_to_reversal(self, seen: NetworkPass, inputs: list[Tensor]) -> None:
        """Compare, in the backward pass, the gradient by a fake where D is given it and where G has made it."""
        if not seen.of or not inputs or not inputs[0].requires_grad or inputs[0].is_leaf:
            return

        def compare(seed: Tensor) -> None:
            if self._gradient is not None:
                seen.by_input.append((self._gradient.number, seed.detach()))

        inputs[0].register_hook(compare)

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
            best=frozenset(n for kind, n in labels if kind == "best"),
            kept=bool(kept),
            second=bool(second),
            functional=not accumulates,
        )
        self._note(seen)
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
            seen.wrote = {owner for one in inputs if (owner := self.players.owner(one)) is not None}
            shapes = [one.shape for one in inputs]
            alike = (shapes == [p.shape for p in player.parameters()] for player in self.players.values())
            seen.by_weights = bool(seen.wrote) or any(alike)
            for one in tensors(made):
                self.flow.put([one], frozenset({own}))
            return
        for number, player in self.players.items():
            for p in player.parameters():
                if p.grad is not None and self.players.owner(p) == number and before.get(id(p)) != _state(p):
                    old = frozenset(one for one in self.flow.labels(p.grad) if one[0] == "gradient")
                    self.flow.gradients.add(key(p.grad))
                    fresh = before.get(id(p)) is None
                    self.flow.put([p.grad], frozenset({own}) if fresh else old | {own})
                    if bool(_entries(p.grad).any()):
                        seen.wrote.add(number)

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self.flow.stepping = False
        if self.players.anonymous and id(optimizer) not in self.players:
            self.players.own(optimizer)
        player = self.players.get(id(optimizer))
        if player is None:
            self._in_step = optimizer
            return
        self._look_for_replaced(player)
        player.successor = None
        with self.flow.paused():
            if id(optimizer) not in self._steps:
                for before in self.players.take_over(player):
                    self._hand_over(before, player)
            self.snapshots.before_step(player, len(self.events))
        self.on_step(player)
        self._in_step, self._began = optimizer, time.perf_counter()
        has_closure = any(callable(one) for one in (*args[1:], *kwargs.values()))  # args begin with the optimiser
        self._about_to_move = None if has_closure else self._moving(player)
        self.flow.stepping = not has_closure

    def _hand_over(self, before: Player, player: Player) -> None:
        """Let a player that moves for the first time have what another's networks did since that one moved last."""
        old, new = id(before.optimizer), id(player.optimizer)
        if not self._plays(before):  # it has only pretrained, or was never used: the game begins now
            self.snapshots.hand_over(before, player)
        since = takewhile(lambda one: not (isinstance(one, OptimizerStep) and one.player is before), reversed(self.events))
        for one in since:
            if isinstance(one, NetworkPass):
                one.player = player if one.player is before and self.players.of(one.network) is player else one.player
                one.attached = {new if number == old else number for number in one.attached}
            elif isinstance(one, Gradient):
                one.wrote = {new if number == old else number for number in one.wrote}

    def _plays(self, player: Player) -> bool:
        """Return whether a player has moved along a gradient in which another player's network had a part."""
        passes = {one.number: one for one in self.events if isinstance(one, NetworkPass)}
        along = {n for one in self.events if isinstance(one, OptimizerStep) and one.player is player for n in one.along}
        read = {n for one in self.events if isinstance(one, Gradient) and one.number in along for n in one.of}
        read |= {n for number in read & passes.keys() for n in passes[number].of}
        return any(passes[n].player is not player for n in read & passes.keys())

    def _moving(self, player: Player) -> OptimizerStep:
        with self.flow.paused():
            gradients = [p.grad for p in player.parameters() if p.grad is not None]
            labels = self.flow.labels(gradients)
            return OptimizerStep(
                place(),
                player,
                frozenset(n for kind, n in labels if kind == "gradient"),
                not gradients,
                not any(bool(_entries(one).any()) for one in gradients),
                all(bool(_entries(one).isfinite().all()) for one in gradients),
            )

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self.flow.stepping = False
        player = self.players.get(id(optimizer))
        if player is None or self._in_step is not optimizer:
            self._in_step = None
            return
        self.players.own(optimizer)  # its weights may lie elsewhere now
        step = self._about_to_move or self._moving(player)
        self._in_step = None
        step.ms = 1000 * (time.perf_counter() - self._began)
        self._note(step)
        number = id(optimizer)
        self._steps[number] = self._steps.get(number, 0) + 1

    def written(self, memory: int, operation: str, bounds: tuple[Any, ...]) -> None:
        """Note weights that are written outside steps."""
        if self._in_step is not None or self._gradient is not None or self._running:
            return
        player = self.players[self.players.memory[memory]]
        if not any(isinstance(one, Write) and (one.player, one.operation) == (player, operation) for one in self._writes()):
            self._note(Write(place(), player, operation, bounds))

    def _look_for_replaced(self, player: Player) -> None:
        """Note weights whose memory has been replaced, which is seen only when they are used again."""
        if player.optimizer is not None and self.players.lies_elsewhere(player):
            self.players.own(player.optimizer)
            self._note(Write(place(), player, "data"))

    def averaged(self, owner: int) -> None:
        """Note weights that are mixed into a third copy outside steps."""
        if self._in_step is not None or self._gradient is not None or self._running:
            return
        player = self.players[owner]
        same = [one for one in self._writes() if isinstance(one, AverageWrite) and one.player is player]
        if same:
            same[0].count += 1
        else:
            self._note(AverageWrite(place(), player))

    def _writes(self) -> Iterator[Event]:
        """Yield the writes since the last pass, backward pass or step: parameter by parameter, they are one."""
        return takewhile(lambda one: isinstance(one, Write | AverageWrite), reversed(self.events))

    def rescaled(self) -> None:
        """Note that gradients are changed between a backward pass and a step."""
        if self._in_step is None and not self.snapshots.done:
            self.unlike = "gradients are changed before a step, as clipping does"

    def drew(self) -> None:
        """Note that a network draws random numbers in its pass, which another run of it draws anew."""
        if self._running:
            self._drew = True
            self.unlike = self.unlike or "a network draws random numbers, as dropout does"

    def waited(self) -> None:
        """Note that the host waits, unless torch itself does so in scaling gradients or in a data loader."""
        if self._in_step is None and self._gradient is None:
            frame = sys._getframe(1)
            while frame is not None:
                if any(one in frame.f_code.co_filename for one in SILENT):
                    return
                frame = frame.f_back  # type: ignore[assignment]
            self._note(Wait(place()))


def _has_modes(module: nn.Module) -> bool:
    """Return whether training mode changes what a module does, as its code tells: batch norm, dropout, spectral norm."""
    if isinstance(module, _InstanceNorm):
        return module.track_running_stats
    read = getattr(getattr(type(module).forward, "__code__", None), "co_names", ())
    hooks = (type(one).__name__ for one in module._forward_pre_hooks.values())  # older spectral norm
    return "training" in read or any("spectral" in one.lower() for one in hooks)


def _in_order(network: nn.Module, args: Any, kwargs: Any) -> tuple[Any, ...]:
    """Return the arguments of a pass by position, as far as the network takes them so."""
    try:
        bound = inspect.signature(network.forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return (*args, *kwargs.values())
    bound.apply_defaults()  # those between two arguments that are given
    return (*bound.args, *(one for name, one in bound.kwargs.items() if name in kwargs))


def _entries(gradient: Tensor) -> Tensor:
    """Return a gradient, or what is written down of a sparse one."""
    return gradient._values() if gradient.is_sparse else gradient


def _state(p: Tensor) -> tuple[int, int] | None:
    return None if p.grad is None else (id(p.grad), p.grad._version)


def _removed(silence: Any) -> None:
    if silence in warnings.filters:
        warnings.filters.remove(silence)  # type: ignore[attr-defined]
