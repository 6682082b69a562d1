"""Tapes of strategies: operations on numbers that the browser repeats, so that no strategy needs its own script.

The strategy itself runs, on a real GAN with autograd, and every operation on tensors is written down, as for a CUDA graph. Rate
and momentum are tensors, which the page sets. The coefficient of a strategy is a plain number: recordings at three of its
values show which numbers follow it, and how.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ganexp.batch import Batch
from playing.games import Game, Settings, Strategy, gan_of

_VIEWS = {"detach", "alias", "view", "_unsafe_view", "squeeze", "unsqueeze", "expand", "t", "_reshape_alias"}
_ALIKE = {"clone": "copy", "log_sigmoid_forward": "log_sigmoid", "bitwise_and": "and", "bitwise_not": "not"}
_KNOWN = {"add", "sub", "mul", "div", "neg", "lerp", "copy", "sum", "mean", "stack", "sigmoid", "log_sigmoid", "sign", "where"}
_KNOWN |= {"log_sigmoid_backward", "gt", "le", "and", "not", "ones_like", "zeros_like", "scalar_tensor", "full_like", "leg"}
_KNOWN |= {"reciprocal"}

Operation = tuple[str, int, tuple[Any, ...]]
"""A name of `tapes.js`, the place of the result, and the operands: places, or numbers as `(number,)`."""


class Unrepeatable(Exception):
    """An iteration does not consist of operations on tensors alone, or does not repeat."""


class _Recorder(TorchDispatchMode):
    """Writes down the operations of each iteration.

    Every piece of memory is a place, and is kept, so that no other piece gets its address. θ, ψ, the rate, the momentum, the
    data and the latents have the places 0 to 5.
    """

    def __init__(self) -> None:
        super().__init__()
        self.iterations: list[list[Operation]] = []
        self.found: dict[int, int] = {}
        self.kept: list[Tensor] = []
        self.before: list[list[float]] = []

    def place(self, tensor: Tensor) -> int:
        """Return the place of a tensor: all of the memory that it is a view of."""
        memory = tensor.untyped_storage()
        if memory._cdata not in self.found:
            self.found[memory._cdata] = len(self.kept)
            self.kept.append(torch.empty(0, dtype=tensor.dtype).set_(memory))
            self.before.append(_values(self.kept[-1]))
        return self.found[memory._cdata]

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        namespace, _, name = function._schema.name.partition("::")
        if namespace == "aten":
            self.note(name, args, kwargs or {}, out)
        return out

    def note(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> None:
        """Write down an operation; an operation on lists is written down once for each element."""
        if name.startswith("_foreach_"):
            lists = [one for one in args if isinstance(one, (list, tuple))]
            for i in range(len(lists[0])):
                own = [one[i] if isinstance(one, (list, tuple)) else one for one in args]
                self.note(name.removeprefix("_foreach_"), own, kwargs, own[0] if out is None else out[i])
            return
        if name in _VIEWS:
            return
        name = name.removesuffix("_")
        name = _ALIKE.get(name, name)
        if name not in _KNOWN:
            raise Unrepeatable(f"the page has no operation {name}")
        operands = list(args)
        if name in ("add", "sub"):
            operands.append(kwargs.get("alpha", 1))
        if name == "copy":
            operands = operands[-1:]
        if name == "stack":
            operands = operands[0]
        if name == "sum":
            operands = [args[0], args[0].numel() / max(1, args[0].untyped_storage().nbytes() // args[0].itemsize)]
        if name == "log_sigmoid_backward":
            operands = operands[:2]
        if name.endswith("_like"):
            operands = []
        out = out[0] if isinstance(out, tuple) else out
        given = tuple(self.place(one) if isinstance(one, Tensor) else (float(one),) for one in operands)
        self.iterations[-1].append((name, self.place(out), given))


GIVEN = 6
THETA, PSI = 0, 1
CONSTANT, WITHIN = 100, 1000
"""The first of the page's places that nothing fills, and the first of those that an iteration fills for itself."""


def _recorded(game: Game, strategy: Callable[[Tensor], Strategy], settings: Settings, iterations: int) -> _Recorder:
    gan = gan_of(game, settings, (1.0, 0.5))
    rate, momentum = (torch.tensor(one, dtype=torch.float64) for one in (settings.rate, settings.momentum))
    for optimizer in (gan.optimizer_g, gan.optimizer_d):
        for group in optimizer.param_groups:
            group |= {"lr": rate, "momentum": momentum}
    points = torch.tensor(game.points, dtype=torch.float64)[:, None]
    reals = itertools.repeat(Batch(points))
    recorder, played = _Recorder(), strategy(rate)
    for tensor in (*gan.g_parameters, *gan.d_parameters, rate, momentum, points, gan.prior.sample(1).values):
        recorder.place(tensor)
    for _ in range(iterations):
        recorder.iterations.append([])
        with recorder:
            played(gan, reals, d_steps=settings.d_steps, g_steps=settings.g_steps)
    return recorder


def program(
    game: Game,
    strategy: Callable[[float | None, Tensor], Strategy],
    settings: Settings,
    values: Sequence[float | None],
    cycle: int = 1,
) -> dict[str, Any]:
    """Return what the page plays.

    Args:
        game: The game; programs of games that differ by their points alone are the same.
        strategy: Makes a new strategy with a coefficient, and with a rate for steps of its own.
        settings: The settings of the recording; rate and momentum may differ on the page.
        values: Of the coefficient: three if it only scales numbers, else one; None for a strategy without one.
        cycle: After how many iterations the same operations come again.

    Returns:
        `tapes`, lists of operations of one iteration each: the one that `first` names is played once, and then those of `loop`
        again and again. An operation is a name, a place and operands: places, or `[a]`, and `[a, b]` for a + b times the
        coefficient. `start` is what lies at places that no operation fills, or that the first iteration reads before it fills
        them.

    Raises:
        Unrepeatable: The strategy cannot be recorded in this way.
    """
    count = max(4, 1 + 2 * cycle)
    recordings = [_lean(_recorded(game, partial(strategy, one), settings, count)) for one in values]
    order = [0, *(1 + k % cycle for k in range(count - 1))]
    start: dict[tuple[float, ...], int] = {}
    tapes: list[list[Any]] = []
    for part in range(1 + cycle):
        ks = [k for k, one in enumerate(order) if one == part]
        forms = [_form(one, k, start) for one in recordings for k in ks]
        if any(form != forms[0][0] for form, _ in forms):
            raise Unrepeatable(f"the coefficient changes more than numbers, or iterations do not come again after {cycle}")
        numbers = np.array([own for _, own in forms]).reshape(len(recordings), len(ks), -1)
        expressions = [_expression(numbers[..., slot], values) for slot in range(numbers.shape[-1])]
        tapes.append(_with_legs(forms[0][0], expressions))
    unique = [tape for i, tape in enumerate(tapes) if tape not in tapes[:i]]
    first, *loop = (unique.index(tape) for tape in tapes)
    fixed = {place: [*own] if len(own) > 1 else own[0] for own, place in start.items()}
    fixed |= recordings[0].state
    return {"tapes": unique, "first": first, "loop": loop, "start": fixed}


@dataclass
class _Lean:
    """The part of a recording that θ and ψ depend on."""

    iterations: list[list[Operation]]
    constants: dict[int, list[float]]
    outside: list[int]
    """Places that an iteration reads as another one has left them."""
    state: dict[int, float]
    """What lies at those of them that the first iteration reads before it fills them, such as a count of iterations."""


def _lean(recorder: _Recorder) -> _Lean:
    every = [operation for tape in recorder.iterations for operation in tape]
    needed, reached = {THETA, PSI}, 0
    while len(needed) > reached:
        reached = len(needed)
        needed |= {one for _, place, given in every if place in needed for one in given if isinstance(one, int)}
    times = Counter(place for _, place, _ in every)
    values = [_values(one) for one in recorder.kept]
    constants = {place: value for place, value in enumerate(values) if place >= GIVEN and not times[place]}
    for _, place, given in every:
        if times[place] == 1 and all(one in constants for one in given if isinstance(one, int)):
            constants[place] = values[place]
    iterations = [[one for one in tape if one[1] in needed and one[1] not in constants] for tape in recorder.iterations]
    outside: dict[int, None] = dict.fromkeys(range(GIVEN))
    early = 0
    for number, tape in enumerate(iterations):
        filled: set[int] = set()
        for _, place, given in tape:
            outside |= dict.fromkeys(one for one in given if isinstance(one, int) and one not in filled | constants.keys())
            filled.add(place)
        early = early if number else len(outside)
    state = {at: recorder.before[place][0] for at, place in enumerate([*outside][:early]) if at >= GIVEN}
    return _Lean(iterations, constants, [*outside], state)


def _values(tensor: Tensor) -> list[float]:
    return tensor.double().reshape(-1).tolist()


def _form(lean: _Lean, k: int, start: dict[tuple[float, ...], int]) -> tuple[list[Any], list[float]]:
    """Return an iteration with its places numbered in order and its numbers taken out, and the numbers."""
    within: dict[int, int] = {}
    numbers: list[float] = []

    def named(place: int) -> int:
        if place in lean.outside:
            return lean.outside.index(place)
        if place in lean.constants:
            return start.setdefault(tuple(lean.constants[place]), CONSTANT + len(start))
        return within.setdefault(place, WITHIN + len(within))

    form: list[Any] = []
    for name, place, given in lean.iterations[k]:
        operands = [named(one) if isinstance(one, int) else None for one in given]
        numbers += [one[0] for one in given if not isinstance(one, int)]
        form.append([name, named(place), *operands])
    return form, numbers


def _expression(numbers: NDArray[np.float64], values: Sequence[float | None]) -> list[float]:
    """Return how a number, `(values, iterations)`, follows the coefficient; as it is if it does not."""
    first = numbers[0, 0]
    if (numbers == first).all():
        return [float(first)]
    if len(values) > 1 and (numbers == numbers[:, :1]).all():
        coefficients = np.array(values, dtype=np.float64)
        slope, offset = np.polyfit(coefficients, numbers[:, 0], 1)
        if np.allclose(offset + slope * coefficients, numbers[:, 0], rtol=1e-12, atol=1e-12):
            return [_tidy(offset), _tidy(slope)]
    raise Unrepeatable("a number changes in a way that the page does not know")


def _tidy(value: float) -> float:
    """Return a number without the rounding errors of the fit."""
    return round(float(value), 9)


def _with_legs(form: list[Any], expressions: Sequence[Any]) -> list[Any]:
    """Return operations with their numbers, and a `leg` where the weights have moved, before they are read or moved again."""
    rest = iter(expressions)
    tape: list[Any] = []
    moved: set[int] = set()
    for name, place, *operands in form:
        if moved and (place in moved or (moved & {*operands} and place not in (THETA, PSI))):
            tape.append(["leg"])
            moved = set()
        if place in (THETA, PSI):
            moved.add(place)
        given = [next(rest) if one is None else one for one in operands]
        if name in ("add", "sub", "sum") and given[-1] == [1]:  # scaled by 1, which goes without saying
            given.pop()
        tape.append([name, place, *given])
    return [*tape, ["leg"]] if moved else tape
