"""Records the events of a loop by torch's hooks, and removes all of them at the end."""

import inspect
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import takewhile
from types import FrameType
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
from ganexp.watching.names import named_in
from ganexp.watching.players import Players, unwrapped
from ganexp.watching.snapshots import Snapshots
from ganexp.watching.values import Values

NOT_USER_CODE = (os.path.dirname(torch.__file__), os.path.dirname(__file__), "<", os.path.dirname(os.__file__))
INSTALLED = ("site-packages", "dist-packages")
SILENT = ("grad_scaler", os.path.join("torch", "utils", "data"))
"""Files of torch that read values from the device where the user's code cannot avoid it."""


def place() -> str:
    """Return `file:line` of the user's innermost line, or else of an installed package's, other than torch and ganexp."""
    return _user_code()[1]


def _user_code() -> tuple[FrameType | None, str]:
    """Return the frame of that line, and the line."""
    frame, user, line = sys._getframe(1), None, ""
    while frame is not None:
        file = frame.f_code.co_filename
        own = not any(folder in file for folder in INSTALLED)
        if not file.startswith(NOT_USER_CODE) and (own or not line):
            user, line = frame, f"{os.path.basename(file)}:{frame.f_lineno}"
            if own:
                break
        frame = frame.f_back  # type: ignore[assignment]
    return user, line or "?"


class Recorder:
    """Records events between `start` and `stop`. `not_repeatable` says why a replay of the same batches would differ.

    Args:
        players: The players that are known already.
        on_step: Called with the player before each step; it may raise to end the loop.
    """

    def __init__(self, players: Players, on_step: Callable[[Player], None] = lambda player: None) -> None:
        self.players = players
        self.on_step = on_step
        self.events: list[Event] = []
        self.snapshots = Snapshots(players)
        self.not_repeatable = ""
        self.named: dict[str, Any] = {}
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
        self._about_to_move: OptimizerStep | None = None  # None before a closure is called
        self._passes = 0
        self._gradients = 0
        self._undo: list[Callable[[], object]] = []

    def _record(self, event: Event) -> None:
        event.activations, self.activations.peak = self.activations.peak, self.activations.now
        self.events.append(event)

    def start(self) -> Self:
        """Register the hooks."""
        hooks = torch.nn.modules.module
        handles = [
            hooks.register_module_forward_pre_hook(self._before_pass),
            hooks.register_module_forward_hook(self._after_pass, with_kwargs=True, always_call=True),
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        self._undo += [handle.remove for handle in handles]
        for marks in (hooks._global_forward_hooks_always_called, hooks._global_forward_hooks_with_kwargs):
            self._undo.append(partial(marks.pop, handles[1].id, None))  # torch does not remove it with the handle
        engine = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

        def watched(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            return self._differentiate(engine, outputs, *args, **kwargs)

        torch.autograd._engine_run_backward = watched  # type: ignore[attr-defined, assignment]
        self._undo.append(lambda: setattr(torch.autograd, "_engine_run_backward", engine))
        if self.players.anonymous:
            self.players.find_optimizers()
            init = Optimizer.__init__

            def init_and_own(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
                init(optimizer, *args, **kwargs)
                self.players.own(optimizer)

            Optimizer.__init__ = init_and_own  # type: ignore[method-assign, assignment]
            self._undo.append(lambda: setattr(Optimizer, "__init__", init))
        warnings.filterwarnings("ignore", message="Using `torch.compile")  # torch warns of the recorder's own global hooks
        silence = warnings.filters[0]
        self._undo.append(lambda: _remove_filter(silence))
        disabled = torch.autograd.graph.disable_saved_tensors_hooks  # torch.func calls it; it fails while hooks are set
        torch.autograd.graph.disable_saved_tensors_hooks = lambda message: self._unhooked(disabled(message))  # type: ignore[assignment]
        self._undo.append(lambda: setattr(torch.autograd.graph, "disable_saved_tensors_hooks", disabled))
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
        """Remove every hook."""
        try:
            self.snapshots.end(len(self.events))
        finally:
            self._leave()
        if torch.distributed.is_available() and torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
            self.not_repeatable = "gradients are averaged over processes, of which this is one"

    def _leave(self) -> None:
        self.activations.__exit__()
        self.flow.__exit__(None, None, None)
        while self._undo:
            self._undo.pop()()

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

    def _after_pass(self, network: nn.Module, args: Any, kwargs: Any, output: Any = None) -> None:
        if not self._running or self._running[-1][0] is not network:
            return
        _, (player, operations, began) = self._running.pop()
        if output is None:  # the pass failed, and torch passes no kwargs
            return
        ms = 1000 * (time.perf_counter() - began)
        self.compiled |= hasattr(network, "_orig_mod")
        labels = self.flow.labels((args, kwargs))
        with self.flow.paused(), torch.no_grad():
            of = frozenset(number for kind, number in labels if kind == "pass")
            inputs = [*tensors((args, kwargs))]
            parameters = [*network.parameters()]
            drawn_inside = self._drew and not any(tensor.is_floating_point() for tensor in inputs)
            self._passes += 1
            network_pass = NetworkPass(
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
                any(tensor.requires_grad for tensor in tensors(output)),
                network.training,
                bool(parameters) and not any(p.requires_grad for p in parameters),
                any(isinstance(module, _BatchNorm) for module in network.modules()),
                any(map(_has_modes, network.modules())),
                dict(self._steps),
                any(kind == "gradient" for kind, _ in labels),
                ms=ms,
                operations=self.flow.operations - operations,
            )
            if not self.snapshots.done:
                arguments = _in_order(unwrapped(network), args, kwargs) if kwargs else args
                network_pass.arguments = tuple(
                    argument.detach().clone() if isinstance(argument, Tensor) else argument for argument in arguments
                )
            network_pass.is_loss = self._is_loss(inputs, output)
            network_pass.outputs = {self._values.number(tensor) for tensor in tensors(output)}
            self._watch_outputs(network_pass, output, {tensor.shape for tensor in inputs})
            self._watch_input_gradient(network_pass, inputs)
            given = {key(tensor) for tensor in inputs}  # a network may return its input beside its scores
            self.flow.put(
                (tensor for tensor in tensors(output) if key(tensor) not in given), frozenset({("pass", network_pass.number)})
            )
            self._record(network_pass)

    def _is_loss(self, inputs: list[Tensor], output: Any) -> bool:
        """Return whether a module's inputs are fakes and as many other samples, and its outputs single numbers."""
        shapes: dict[bool, set[torch.Size]] = {True: set(), False: set()}
        for tensor in inputs:
            shapes[any(kind == "pass" for kind, _ in self.flow.labels(tensor))].add(tensor.shape)
        several = any(len(shape) > 0 and shape[0] > 1 for shape in shapes[True] & shapes[False])
        return several and {tensor.numel() for tensor in tensors(output)} == {1}

    def _watch_outputs(self, network_pass: NetworkPass, output: Any, shapes: set[torch.Size]) -> None:
        """Record gradients with respect to outputs. Reconstructions, which have an input's shape, and classes are no scores."""
        for number, tensor in enumerate(tensors(output)):
            if tensor.requires_grad and tensor.grad_fn is not None:
                is_score = tensor.shape not in shapes and (tensor.dim() < 2 or tensor.shape[1] == 1)
                score = tensor.detach().clone() if is_score else None
                tensor.register_hook(partial(self._seed, network_pass, number, score))

    def _seed(self, network_pass: NetworkPass, number: int, score: Tensor | None, seed: Tensor) -> None:
        if self._gradient is not None:
            with self.flow.paused():
                seed = seed.detach().clone()
                network_pass.seeds.append((self._gradient.number, seed))
                network_pass.scores.append((self._gradient.number, number, score, seed))

    def _watch_input_gradient(self, network_pass: NetworkPass, inputs: list[Tensor]) -> None:
        """Record the gradient of D's first input in the backward pass, to compare it with that of G's output."""
        if not network_pass.of or not inputs or not inputs[0].requires_grad or inputs[0].is_leaf:
            return

        def compare(seed: Tensor) -> None:
            if self._gradient is not None:
                network_pass.by_input.append((self._gradient.number, seed.detach()))

        inputs[0].register_hook(compare)

    def _differentiate(self, engine: Callable[..., Any], outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if self._gradient is not None:  # a checkpoint's own backward pass
            return engine(outputs, *args, **kwargs)
        kept, second, inputs = args[1], args[2], args[3]
        accumulates = kwargs.get("accumulate_grad", False)
        labels = self.flow.labels([output for output in outputs if isinstance(output, Tensor)])
        self._gradients += 1
        gradient = Gradient(
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
        self._record(gradient)
        before = {id(p): _state(p) for player in self.players.values() for p in player.parameters()} if accumulates else {}
        self._gradient = gradient
        operations, began = self.flow.operations, time.perf_counter()
        try:
            with self.flow.paused():
                result = engine(outputs, *args, **kwargs)
        except RuntimeError as error:
            gradient.failed = str(error)
            raise
        finally:
            self._gradient = None
            gradient.ms = 1000 * (time.perf_counter() - began)
            gradient.operations = self.flow.operations - operations
        with self.flow.paused():
            self._note_written(gradient, before, inputs, result)
        return result

    def _note_written(self, gradient: Gradient, before: dict[int, Any], inputs: Any, result: Any) -> None:
        own = ("gradient", gradient.number)
        if gradient.functional:
            gradient.wrote = {owner for tensor in inputs if (owner := self.players.owner(tensor)) is not None}
            shapes = [tensor.shape for tensor in inputs]
            alike = (shapes == [p.shape for p in player.parameters()] for player in self.players.values())
            gradient.by_weights = bool(gradient.wrote) or any(alike)
            for tensor in tensors(result):
                self.flow.put([tensor], frozenset({own}))
            return
        for number, player in self.players.items():
            for p in player.parameters():
                if p.grad is not None and self.players.owner(p) == number and before.get(id(p)) != _state(p):
                    old = frozenset(label for label in self.flow.labels(p.grad) if label[0] == "gradient")
                    self.flow.gradients.add(key(p.grad))
                    fresh = before.get(id(p)) is None
                    self.flow.put([p.grad], frozenset({own}) if fresh else old | {own})
                    if bool(_entries(p.grad).any()):
                        gradient.wrote.add(number)

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
                self.named |= named_in(_user_code()[0])
                for before in self.players.take_over(player):
                    self._hand_over(before, player)
            self.snapshots.before_step(player, len(self.events))
        self.on_step(player)
        self._in_step, self._began = optimizer, time.perf_counter()
        has_closure = any(callable(argument) for argument in (*args[1:], *kwargs.values()))  # args begin with the optimiser
        self._about_to_move = None if has_closure else self._step_event(player)
        self.flow.stepping = not has_closure

    def _hand_over(self, before: Player, player: Player) -> None:
        """Give a player that moves for the first time the events of another's networks since that one's last step."""
        old, new = id(before.optimizer), id(player.optimizer)
        if not self._plays(before):  # it has pretrained, or was never used: the game begins now
            self.snapshots.hand_over(before, player)
        since = takewhile(
            lambda event: not (isinstance(event, OptimizerStep) and event.player is before), reversed(self.events)
        )
        for event in since:
            if isinstance(event, NetworkPass):
                event.player = player if event.player is before and self.players.of(event.network) is player else event.player
                event.attached = {new if number == old else number for number in event.attached}
            elif isinstance(event, Gradient):
                event.wrote = {new if number == old else number for number in event.wrote}

    def _plays(self, player: Player) -> bool:
        """Return whether a player has moved along a gradient that passed through another player's network."""
        passes = {event.number: event for event in self.events if isinstance(event, NetworkPass)}
        along = {n for event in self.events if isinstance(event, OptimizerStep) and event.player is player for n in event.along}
        read = {n for event in self.events if isinstance(event, Gradient) and event.number in along for n in event.of}
        read |= {n for number in read & passes.keys() for n in passes[number].of}
        return any(passes[n].player is not player for n in read & passes.keys())

    def _step_event(self, player: Player) -> OptimizerStep:
        with self.flow.paused():
            gradients = [p.grad for p in player.parameters() if p.grad is not None]
            labels = self.flow.labels(gradients)
            return OptimizerStep(
                place(),
                player,
                frozenset(n for kind, n in labels if kind == "gradient"),
                not gradients,
                not any(bool(_entries(gradient).any()) for gradient in gradients),
                all(bool(_entries(gradient).isfinite().all()) for gradient in gradients),
            )

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self.flow.stepping = False
        player = self.players.get(id(optimizer))
        if player is None or self._in_step is not optimizer:
            self._in_step = None
            return
        self.players.own(optimizer)  # the step may have moved its weights in memory
        step = self._about_to_move or self._step_event(player)
        self._in_step = None
        step.ms = 1000 * (time.perf_counter() - self._began)
        self._record(step)
        number = id(optimizer)
        self._steps[number] = self._steps.get(number, 0) + 1

    def written(self, memory: int, operation: str, bounds: tuple[Any, ...]) -> None:
        """Record a write to weights outside a step."""
        if self._in_step is not None or self._gradient is not None or self._running:
            return
        player = self.players[self.players.memory[memory]]
        if not any(
            isinstance(event, Write) and (event.player, event.operation) == (player, operation) for event in self._writes()
        ):
            self._record(Write(place(), player, operation, bounds))

    def _look_for_replaced(self, player: Player) -> None:
        """Record that the memory of weights was replaced, which shows only when they are used again."""
        if player.optimizer is not None and self.players.has_new_memory(player):
            self.players.own(player.optimizer)
            self._record(Write(place(), player, "data"))

    def averaged(self, owner: int) -> None:
        """Record that weights are averaged into a copy outside a step."""
        if self._in_step is not None or self._gradient is not None or self._running:
            return
        player = self.players[owner]
        same = [event for event in self._writes() if isinstance(event, AverageWrite) and event.player is player]
        if same:
            same[0].count += 1
        else:
            self._record(AverageWrite(place(), player))

    def _writes(self) -> Iterator[Event]:
        """Yield the writes since the last pass, backward pass or step: writes to each parameter of a player count as one."""
        return takewhile(lambda event: isinstance(event, Write | AverageWrite), reversed(self.events))

    def rescaled(self) -> None:
        """Record that gradients are changed between a backward pass and a step."""
        if self._in_step is None and not self.snapshots.done:
            self.not_repeatable = "gradients are changed before a step, as clipping does"

    def drew(self) -> None:
        """Record that a network draws random numbers in its pass, so that a replay would draw others."""
        if self._running:
            self._drew = True
            self.not_repeatable = self.not_repeatable or "a network draws random numbers, as dropout does"

    def waited(self) -> None:
        """Record that the host waits, except in torch's gradient scaling and data loader."""
        if self._in_step is None and self._gradient is None:
            frame = sys._getframe(1)
            while frame is not None:
                if any(file in frame.f_code.co_filename for file in SILENT):
                    return
                frame = frame.f_back  # type: ignore[assignment]
            self._record(Wait(place()))


def _has_modes(module: nn.Module) -> bool:
    """Return whether training mode changes a module's outputs, judged by its code: batch norm, dropout, spectral norm."""
    if isinstance(module, _InstanceNorm):
        return module.track_running_stats
    read = getattr(getattr(type(module).forward, "__code__", None), "co_names", ())
    hooks = (type(hook).__name__ for hook in module._forward_pre_hooks.values())  # older spectral norm
    return "training" in read or any("spectral" in hook.lower() for hook in hooks)


def _in_order(network: nn.Module, args: Any, kwargs: Any) -> tuple[Any, ...]:
    """Return the arguments of a pass by position, as far as the network accepts them so."""
    try:
        bound = inspect.signature(network.forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return (*args, *kwargs.values())
    bound.apply_defaults()  # for arguments between two that are given
    return (*bound.args, *(value for name, value in bound.kwargs.items() if name in kwargs))


def _entries(gradient: Tensor) -> Tensor:
    """Return a gradient's values, those of a sparse gradient without its zeros."""
    return gradient._values() if gradient.is_sparse else gradient


def _state(p: Tensor) -> tuple[int, int] | None:
    return None if p.grad is None else (id(p.grad), p.grad._version)


def _remove_filter(silence: Any) -> None:
    if silence in warnings.filters:
        warnings.filters.remove(silence)  # type: ignore[attr-defined]
