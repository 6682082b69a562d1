"""Records the events of a loop by torch's hooks, and removes all of them at the end."""

import gc
import inspect
import math
import os
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import takewhile
from traceback import walk_stack
from typing import Any, Self, TypeGuard

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ganexp.instruments.counting import LiveActivations, key
from ganexp.watching import places
from ganexp.watching.backward import counted_by_owners
from ganexp.watching.events import (
    AverageWrite,
    DeadTerm,
    Event,
    Gradient,
    NetworkPass,
    OptimizerStep,
    Player,
    Unowned,
    Wait,
    Write,
    sample,
)
from ganexp.watching.flow import Flow, numbers, tensors
from ganexp.watching.names import named_in
from ganexp.watching.patches import leave_hooks, leave_mode, wrap
from ganexp.watching.places import place, stack, user_code
from ganexp.watching.players import Players, averages, unwrapped
from ganexp.watching.snapshots import Snapshots
from ganexp.watching.values import Values

SILENT = ("grad_scaler", os.path.join("torch", "utils", "data"))
"""Files of torch that read values from the device where the user's code cannot avoid it."""


CHANGED = "gradients are changed before a step, as clipping does"
SHAPES = ("View", "Squeeze", "Unsqueeze", "Reshape", "Unsafe", "ToCopy", "Permute", "Transpose", "TBack", "Clone", "_DDPSink")
"""Autograd's functions that change no values of an output."""


class Recorder:
    """Records events between `start` and `stop`. `not_repeatable` says why a replay of the same batches would differ.

    `elsewhere` is a line that trains in another thread, where nothing is recorded: torch's dispatch modes belong to a thread.

    Args:
        players: The players that are known already.
        on_step: Called with the player before each step; it may raise to end the loop.
    """

    reporting = 0
    """The thread in which a report is made, of which contexts that are still open there see nothing."""

    def __init__(self, players: Players, on_step: Callable[[Player], None] = lambda player: None) -> None:
        self.players = players
        self.on_step = on_step
        self.events: list[Event] = []
        self.snapshots = Snapshots(players, self.events)
        self.not_repeatable = self.elsewhere = ""
        self.named: dict[str, Any] = {}
        self.compiled = False
        self.processes = 1
        self.averages_by_hand = False  # over processes
        self._averaged: set[int] = set()  # passes through a wrapper that does so
        self.flow = Flow(self, players.memory)
        self.activations = LiveActivations(players.memory)
        self._values = Values()
        self._thread = 0
        self._without_owner: dict[nn.Module, str] = {}  # that no optimiser has, with their lines until these are recorded
        self._written: dict[int, Tensor] = {}  # the first values of each parameter's gradient as it was written
        self._starts: dict[Player, dict[Any, Any]] = {}  # the optimiser's state for the weights before each step
        self._steps = Counter[int]()
        self._running: tuple[nn.Module, Any] | None = None
        self._drew = False  # in the pass that is running
        self._gradient: Gradient | None = None
        self._in_step: Optimizer | None = None
        self._step: tuple[float, Write | None, OptimizerStep | None] = 0.0, None, None  # when it began, and what is recorded
        self._passes = self._gradients = 0
        self._undo: list[Callable[[], object]] = []

    def _record(self, event: Event) -> None:
        event.activations, self.activations.peak = self.activations.peak, self.activations.now
        event.position = len(self.events)
        self.events.append(event)

    def start(self) -> Self:
        """Register the hooks."""
        self._thread = threading.get_ident()
        places.begin()
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
        self._undo.append(wrap(torch.autograd, "_engine_run_backward", self._differentiate))
        if self.players.anonymous:
            self.players.find_optimizers()

            def init_and_own(init: Callable[..., None], optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
                init(optimizer, *args, **kwargs)
                if not self.is_paused:
                    self.players.own(optimizer)

            self._undo.append(wrap(Optimizer, "__init__", init_and_own))
        warnings.filterwarnings("ignore", message="Using `torch.compile")  # torch warns of the recorder's own global hooks
        silence = warnings.filters[0]
        self._undo.append(lambda: silence in warnings.filters and warnings.filters.remove(silence))  # type: ignore[attr-defined]
        # torch.func calls it; it fails while hooks are set
        self._undo.append(wrap(torch.autograd.graph, "disable_saved_tensors_hooks", self._unhooked))
        self.flow.__enter__()
        self.activations.__enter__()
        return self

    @contextmanager
    def _unhooked(self, disabled: Callable[[str], AbstractContextManager[None]], message: str) -> Iterator[None]:
        own = not self._in_another_thread()
        if own:
            leave_hooks(self.activations)
        try:
            with disabled(message):
                yield
        finally:
            if own:
                self.activations.__enter__()

    def _in_another_thread(self) -> bool:
        return threading.get_ident() != self._thread

    @property
    def _is_inside(self) -> bool:
        """Whether a pass, a backward pass or a step is running."""
        return self._running is not None or self._gradient is not None or self._in_step is not None

    @property
    def is_paused(self) -> bool:
        """Whether the report of another context is made."""
        return Recorder.reporting == self._thread

    def stop(self) -> None:
        """Remove every hook."""
        try:
            self.snapshots.end()
        finally:
            leave_hooks(self.activations)
            leave_mode(self.flow)
            while self._undo:
                self._undo.pop()()
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self.processes = torch.distributed.get_world_size()
        if self.processes > 1:
            self.not_repeatable = "gradients are averaged over processes, of which this is one"
            self._look_for_passes_alone()

    def _look_for_passes_alone(self) -> None:
        wrapped = {unwrapped(module) for module in gc.get_objects() if issubclass(type(module), nn.Module) and averages(module)}
        for event in self.events if wrapped and not self.averages_by_hand else ():
            if isinstance(event, NetworkPass) and event.number not in self._averaged:
                event.alone = "inside" if event.network in wrapped else "unwrapped"

    def _before_pass(self, network: nn.Module, args: Any) -> None:
        self.flow.stepping = False
        if self._running or self._gradient or self.is_paused:
            return
        player = self.players.of(network)
        if self._in_another_thread():
            self.elsewhere = self.elsewhere or (place() if player else "")
            return
        if player is None:
            self._note_without_owner(network)
            return
        self._look_for_replaced(player)
        with self.flow.paused():
            before = self.snapshots.before_pass(network) if self._in_step is None else None
        self._drew = False
        self._running = network, (player, before, self.flow.operations, time.perf_counter())

    def _note_without_owner(self, network: nn.Module) -> None:
        """Note a network in training mode that no optimiser has, though it requires gradients."""
        parameters = [*network.parameters()]
        if not self.players.anonymous or not network.training or not parameters or network in self._without_owner:
            return
        if all(p.requires_grad and self.players.owner(p) is None for p in parameters):
            for module in network.modules():
                self._without_owner.setdefault(module, "")
            self._without_owner[network] = place()

    def _after_pass(self, network: nn.Module, args: Any, kwargs: Any, output: Any = None) -> None:
        if self._running is None or self._running[0] is not network:
            return
        (player, before, operations, began), self._running = self._running[1], None
        if output is None:  # the pass failed, and torch passes no kwargs
            return
        ms = 1000 * (time.perf_counter() - began)
        self.compiled |= any(map(_is_compiled, network.modules()))
        labels = self.flow.labels((args, kwargs))
        with self.flow.paused(), torch.no_grad():
            inputs, outputs = [*tensors((args, kwargs))], [*tensors(output)]
            parameters = [*network.parameters()]
            drawn_inside = self._drew and not any(tensor.is_floating_point() for tensor in inputs)
            self._passes += 1
            network_pass = NetworkPass(
                place(),
                number=self._passes,
                player=player,
                network=unwrapped(network),
                of=numbers(labels, "pass"),
                mixed=self.flow.mixed(inputs),
                attached=self.players.reached(inputs),
                first=self._values.of_all(inputs[:1]),
                latents=self._values.of_all([] if drawn_inside else inputs),
                drew=self._drew,
                graph=any(tensor.requires_grad for tensor in outputs),
                training=network.training,
                frozen=bool(parameters) and not any(p.requires_grad for p in parameters),
                steps=dict(self._steps),
                moved=bool(numbers(labels, "gradient")),
                is_loss=self._is_loss(inputs, outputs),
                outputs={self._values.number(tensor) for tensor in outputs},
                input_memory=key(inputs[0]) if inputs else 0,
                output_memory={key(tensor) for tensor in outputs},
                ms=ms,
                operations=self.flow.operations - operations,
            )
            if before is not None:
                network_pass.before = before
                arguments = _in_order(unwrapped(network), args, kwargs) if kwargs else args
                network_pass.arguments = tuple(a.detach().clone() if isinstance(a, Tensor) else a for a in arguments)
            self._watch_gradients(network_pass, inputs, outputs)
            if averages(getattr(network, "_orig_mod", network)):
                self._averaged.add(self._passes)
            if inputs and inputs[0].is_floating_point() and inputs[0].numel() and not inputs[0].is_meta:
                network_pass.low, network_pass.high = (float(bound) for bound in inputs[0].aminmax())
            given = {key(tensor) for tensor in inputs}  # a network may return its input beside its scores
            for tensor in (tensor for tensor in outputs if key(tensor) not in given):
                ends = _ends(tensor)
                network_pass.ends = network_pass.ends or ends
                self.flow.put([tensor], frozenset({("pass", self._passes)} | ({(ends, self._passes)} if ends else set())))
            self._record(network_pass)

    def _is_loss(self, inputs: list[Tensor], outputs: list[Tensor]) -> bool:
        """Return whether a module's inputs are fakes and as many other samples, and its outputs single numbers."""
        shapes: dict[bool, set[torch.Size]] = {True: set(), False: set()}
        for tensor in inputs:
            shapes[bool(numbers(self.flow.labels(tensor), "pass"))].add(tensor.shape)
        several = any(len(shape) > 0 and shape[0] > 1 for shape in shapes[True] & shapes[False])
        return several and {tensor.numel() for tensor in outputs} == {1}

    def _watch_gradients(self, network_pass: NetworkPass, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Record gradients with respect to outputs, and to D's first input, to compare it with that of G's output.

        Reconstructions, which have an input's shape, and classes are no scores.
        """
        shapes = {tensor.shape for tensor in inputs}
        for number, tensor in enumerate(outputs):
            if tensor.requires_grad and tensor.grad_fn is not None:
                is_score = tensor.shape not in shapes and (tensor.dim() < 2 or tensor.shape[1] == 1)
                score = tensor.detach().clone() if is_score else None
                tensor.register_hook(partial(self._keep_gradient, network_pass.scores, (number, score)))
        if network_pass.of and inputs and inputs[0].requires_grad and not inputs[0].is_leaf:
            inputs[0].register_hook(partial(self._keep_gradient, network_pass.by_input, ()))

    def _keep_gradient(self, kept: list[Any], of: tuple[Any, ...], seed: Tensor) -> None:
        if self._gradient is not None:
            with self.flow.paused():
                kept.append((self._gradient.number, *of, seed.detach().clone()))

    def _differentiate(self, engine: Callable[..., Any], outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if self._gradient is not None or self.is_paused or self._in_another_thread():  # a checkpoint's own backward pass
            return engine(outputs, *args, **kwargs)
        inputs = args[3]
        accumulates = kwargs.get("accumulate_grad", False)
        labels = self.flow.labels([output for output in outputs if isinstance(output, Tensor)])
        self._gradients += 1
        gradient = Gradient(
            place(),
            self._gradients,
            numbers(labels, "pass"),
            numbers(labels, "gradient"),
            numbers(self.flow.labels(args[0]), "gradient"),
            best=numbers(labels, "best"),
            dead=numbers(labels, "dead"),
            kept=bool(args[1]),
            second=bool(args[2]),
            functional=not accumulates,
        )
        self._record(gradient)
        before = {id(p): _state(p) for player in self.players.values() for p in player.parameters()} if accumulates else {}
        self._gradient = gradient
        operations, began = self.flow.operations, time.perf_counter()
        counted = counted_by_owners([] if inputs else outputs, self.players.owner, lambda: self.flow.operations)
        try:
            with self.flow.paused(), counted as gradient.by_owners:
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
            if not gradient.second and not gradient.through:
                self._written |= {id(p): sample(by) for p, by in zip(inputs, result, strict=True) if _is_dense(by)}
            return
        for network, line in self._without_owner.items():
            if line and any(p.grad is not None for p in network.parameters()):
                self._record(Unowned(line, network, gradient.place, [sample(p) for p in network.parameters()]))
                self._without_owner[network] = ""
        for number, player in self.players.items():
            for p in player.parameters():
                if p.grad is not None and self.players.owner(p) == number and before.get(id(p)) != _state(p):
                    old = frozenset(label for label in self.flow.labels(p.grad) if label[0] == "gradient")
                    self.flow.gradients.add(key(p.grad))
                    fresh = before.get(id(p)) is None
                    self.flow.put([p.grad], frozenset({own}) if fresh else old | {own})
                    if bool(_entries(p.grad).any()):
                        gradient.wrote.add(number)
                    if _is_dense(p.grad):
                        self._written[id(p)] = sample(p.grad)

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self.is_paused:
            return
        if self.players.anonymous and id(optimizer) not in self.players:
            self.players.own(optimizer)
        player = self.players.get(id(optimizer))
        if self._in_another_thread():
            self.elsewhere = self.elsewhere or place()
            if player is not None:
                try:
                    self.on_step(player)
                except BaseException:
                    raise SystemExit from None  # ends this thread, without a word
            return
        self.flow.stepping = False
        if player is None:
            self._in_step = optimizer
            return
        self._look_for_replaced(player)
        taken, player.successor = player.successor, None
        with self.flow.paused():
            began = [*self._steps]
            if id(optimizer) not in began:
                self.named |= named_in(user_code()[0])
            # where another optimiser only moves the same weights in turn with it, they stay with the one that has moved first
            if id(optimizer) not in began or (taken and id(taken.optimizer) in began[began.index(id(optimizer)) :]):
                for before in self.players.take_over(player):
                    self._hand_over(before, player)
            self.snapshots.before_step(player, stack())
        self.on_step(player)
        self._in_step, start = optimizer, time.perf_counter()
        has_closure = any(callable(argument) for argument in (*args[1:], *kwargs.values()))  # args begin with the optimiser
        event = None if has_closure else self._step_event(player)  # a closure forms its loss in the step
        self._step = start, self._find_put_back(player), event
        self.flow.stepping = not has_closure

    def _hand_over(self, before: Player, player: Player) -> None:
        """Give a player that moves for the first time the events of another's networks since that one's last step."""
        old, new = id(before.optimizer), id(player.optimizer)
        for event in self._since_step(before):
            if isinstance(event, NetworkPass):
                event.player = player if event.player is before and self.players.of(event.network) is player else event.player
                event.attached = {new if number == old else number for number in event.attached}
            elif isinstance(event, Gradient):
                event.wrote = {new if number == old else number for number in event.wrote}

    def _since_step(self, player: Player) -> Iterator[Event]:
        """Yield the events since the last step of a player, the newest first."""
        return takewhile(lambda event: not (isinstance(event, OptimizerStep) and event.player is player), reversed(self.events))

    def _step_event(self, player: Player) -> OptimizerStep:
        with self.flow.paused():
            gradients = [p.grad for p in player.parameters() if p.grad is not None]
            labels = self.flow.labels(gradients)
            return OptimizerStep(
                place(),
                player,
                numbers(labels, "gradient"),
                not gradients,
                not any(bool(_entries(gradient).any()) for gradient in gradients),
                all(bool(_entries(gradient).isfinite().all()) for gradient in gradients),
                self._ascends(player),
                stack(),
            )

    def _ascends(self, player: Player) -> bool:
        """Return whether a step moves up the gradients of backward passes: by its optimiser, or as they were negated since."""
        assert player.optimizer is not None
        moved = [p for p in player.parameters() if _is_dense(p.grad) and id(p) in self._written]
        pairs = [(sample(p.grad).cpu().double(), self._written[id(p)].cpu().double()) for p in moved if p.grad is not None]
        products = [(float(a @ b), float(a @ a), float(b @ b)) for a, b in pairs]
        along, now, then = (sum(column) for column in zip(*products, strict=True)) if products else (0.0, 0.0, 0.0)
        negated = along < -0.99 * math.sqrt(now * then)
        if negated and not self.snapshots.done:
            self.not_repeatable = CHANGED
        return negated is not all(group.get("maximize") for group in player.optimizer.param_groups)

    def _find_put_back(self, player: Player) -> Write | None:
        """Return the write by which the weights are those before an earlier step, if the optimiser's state is another."""
        assert player.optimizer is not None
        with self.flow.paused():
            kept = [value for state in player.optimizer.state.values() for value in tensors(dict(state))]
            weights, state = (tuple(self._values.number(sample(t)) for t in which) for which in (player.parameters(), kept))
        starts = self._starts.setdefault(player, {})
        before = starts.setdefault(weights, state)
        starts[weights] = state
        written = (event for event in self._since_step(player) if isinstance(event, Write) and event.player is player)
        copied = next((write for write in written if "copy" in write.operation or write.operation == "data"), None)
        return copied if before != state else None

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self.is_paused or self._in_another_thread():
            return
        self.flow.stepping = False
        player = self.players.get(id(optimizer))
        is_watched, self._in_step = self._in_step is optimizer, None
        if player is None or not is_watched:
            return
        self.players.own(optimizer)  # the step may have moved its weights in memory
        start, put_back, event = self._step
        step = event or self._step_event(player)
        step.ms, step.put_back = 1000 * (time.perf_counter() - start), put_back
        self._record(step)
        self._steps[id(optimizer)] += 1

    def written(self, memory: int, operation: str, bounds: tuple[Any, ...]) -> None:
        """Record a write to weights outside a step."""
        if self._is_inside:
            return
        player = self.players[self.players.memory[memory]]
        if not any(isinstance(w, Write) and (w.player, w.operation) == (player, operation) for w in self._writes()):
            self._record(Write(place(), player, operation, bounds))

    def _look_for_replaced(self, player: Player) -> None:
        """Record that the memory of weights was replaced, which shows only when they are used again."""
        if player.optimizer is not None and self.players.has_new_memory(player):
            self.players.own(player.optimizer)
            self._record(Write(place(), player, "data"))

    def averaged(self, owner: int) -> None:
        """Record that weights are averaged into a copy outside a step."""
        if self._is_inside:
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

    def multiplied(self, owners: set[int]) -> None:
        """Record that samples are multiplied by weights outside a module's call, so that no pass is seen."""
        for owner in owners if not self._is_inside else ():
            self.players[owner].outside = self.players[owner].outside or place()

    def rescaled(self) -> None:
        """Record that gradients are changed between a backward pass and a step."""
        if self._in_step is None and not self.snapshots.done:
            self.not_repeatable = CHANGED

    def dead_term(self, of: frozenset[int]) -> int:
        """Record that a term without a gradient, from these passes, is added to a loss, and return its position."""
        self._record(DeadTerm(place(), of))
        return len(self.events) - 1

    def takes_logits(self, passes: frozenset[int]) -> None:
        """Record that a loss takes for logits the outputs of passes that end in a sigmoid or softmax."""
        for event in self.events if passes and not self._running else ():
            if isinstance(event, NetworkPass) and event.number in passes:
                event.logits = place()

    def drew(self) -> None:
        """Record that a network draws random numbers in its pass."""
        self._drew |= self._running is not None

    def waited(self) -> None:
        """Record that the host waits, except in torch's gradient scaling and data loader."""
        if self._in_step is None and self._gradient is None:
            files = [frame.f_code.co_filename for frame, _ in walk_stack(sys._getframe(1))]
            if not any(silent in file for file in files for silent in SILENT):
                self._record(Wait(place()))


def _is_compiled(module: nn.Module) -> bool:
    called, forward = getattr(module, "_compiled_call_impl", None), getattr(module, "forward", None)
    return called is not None or hasattr(module, "_orig_mod") or hasattr(forward, "_torchdynamo_orig_callable")


def _in_order(network: nn.Module, args: Any, kwargs: Any) -> tuple[Any, ...]:
    """Return the arguments of a pass by position, as far as the network accepts them so."""
    try:
        bound = inspect.signature(network.forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return (*args, *kwargs.values())
    bound.apply_defaults()  # for arguments between two that are given
    return (*bound.args, *(value for name, value in bound.kwargs.items() if name in kwargs))


def _ends(output: Tensor) -> str:
    """Return the function that an output ends in, apart from changes of its shape: `sigmoid`, `softmax`, `tanh`, or none."""
    node = output.grad_fn
    while node is not None and node.name().startswith(SHAPES):
        node = node.next_functions[0][0]
    name = node.name().removesuffix("Backward0").lower() if node is not None else ""
    return name if name in ("sigmoid", "softmax", "tanh") else ""


def _is_dense(gradient: Any) -> TypeGuard[Tensor]:
    return isinstance(gradient, Tensor) and gradient.layout == torch.strided and not gradient.is_complex()


def _entries(gradient: Tensor) -> Tensor:
    """Return a gradient's values, those of a sparse gradient without its zeros."""
    return gradient._values() if gradient.is_sparse else gradient


def _state(p: Tensor) -> tuple[int, int] | None:
    return None if p.grad is None else (id(p.grad), p.grad._version)
