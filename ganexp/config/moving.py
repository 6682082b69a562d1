"""The key `moving`: numbers of parts that change over a run."""

import copy
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import Field, ValidationError

from ganexp.config.assemble import Parts
from ganexp.config.choices import Choice, Choices
from ganexp.config.parsing import refused, shown, unknown_key
from ganexp.config.schema import GROUPS, Keys, Node
from ganexp.facts import UserError
from ganexp.gan import GAN
from ganexp.schedules import Coefficient, Coefficients, Cosine, Ending, Linear, OptimizerSetting, Schedule, Setting
from ganexp.schedules.coefficients import Place
from ganexp.training import Average

CURVES: dict[str, tuple[type[Ending], str]] = {"cosine": (Cosine, "warm_up"), "linear": (Linear, "begin")}
"""The schedules that a number can follow, with the setting that each has besides its end."""
MOVABLE = ("penalty", "term", "balance", "augment", "loss", "strategy", "wrapper", "optimizer", "average")
"""The groups whose parts read numbers throughout a run."""
Iteration = Annotated[int, Field(ge=0, le=10**12)]


class Move(Keys):
    """The final value of a number, its curve, and the iterations of the change."""

    to: float
    by: Literal["cosine", "linear"] = "cosine"
    warm_up: Iteration = 0
    begin: Iteration = 0
    end: Annotated[int, Field(ge=1, le=10**12)] | None = None


@dataclass(frozen=True)
class Movable:
    """A number of a configuration that moves.

    Args:
        start: Its initial value.
        group: Where it lies: `penalty.r1`, `optimizer`, `optimizer.d`, `loss`.
        name: The setting.
        index: Which of the setting's numbers; None if the setting is a single number.
        move: Where it goes.
    """

    start: float
    group: str
    name: str
    index: int | None
    move: Move


def movables(choices: Choices, parts: Parts) -> dict[str, Movable]:
    """Return the numbers that move, by their keys.

    Settings that their part declares fixed or does not keep are refused, and curves that do not fit the run.
    """
    moving = {}
    for key, value in _flat(choices.config.moving or {}):
        number = moving[key] = _movable(choices, key, _move(key, value))
        _along(key, number.move, choices.config.iterations)
        kind = choices["optimizer.g" if number.group == "optimizer" else number.group].target
        part: Any = parts.by_key.get(number.group, kind)  # optimisers and the average are made with the networks
        fixed = getattr(part, "fixed", {})
        if number.name in fixed:
            raise UserError(f"moving.{key} cannot move: {number.name} {fixed[number.name]}.")
        if part is not kind and number.name not in vars(part):
            raise UserError(f"moving.{key} cannot move: {type(part).__name__} does not keep {number.name} as an attribute.")
    return moving


def at_the_end(values: Mapping[str, Any], moving: Mapping[str, Movable]) -> dict[str, Any]:
    """Return a configuration in which every number that moves has its final value; `init_from` has been checked before."""
    ended: dict[str, Any] = copy.deepcopy({**values, "moving": None, "init_from": None})
    for number in moving.values():
        for node in _nodes(ended, number.group):
            if number.index is None:
                node[number.name] = number.move.to
            else:
                node[number.name][number.index] = number.move.to
    return ended


def with_coefficients(moving: Mapping[str, Movable], iterations: int, parts: Parts, average: Average, gan: GAN) -> Schedule:
    """Return a run's schedule, with the numbers that move besides the learning rates."""
    coefficients = {}
    d, g = gan.optimizer_d, gan.optimizer_g
    optimizers = {"optimizer.d": [d], "optimizer.g": [g], "optimizer": [d, g]}
    by_key: dict[str, Any] = {**parts.by_key, "average": average}
    for key, number in moving.items():
        if number.group.startswith("optimizer"):
            place: Place = OptimizerSetting(optimizers[number.group], number.name, number.index)
        else:
            place = Setting(by_key[number.group], number.name)
        coefficients[key] = Coefficient(place, number.start, number.move.to, _along(key, number.move, iterations))
    return Coefficients(parts.schedule, coefficients)


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each dotted key and its value, whether keys are written with dots or nested."""
    for name, below in values.items():
        if isinstance(below, Mapping) and below.keys().isdisjoint(("to", "by")):
            yield from _flat(below, f"{above}{name}.")
        else:
            yield f"{above}{name}", below


def _move(key: str, value: Any) -> Move:
    """Parse the value of a key: the number that the setting moves to, or a mapping."""
    try:
        move = Move.model_validate(value if isinstance(value, Mapping) else {"to": value}, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        below = ".".join([f"moving.{key}", *map(str, first["loc"])])
        if first["type"] == "extra_forbidden":
            raise UserError(unknown_key(below, Move.model_fields)) from None
        if first["type"] == "missing":
            raise UserError(f"moving.{key} should say the number that it becomes, as in moving.{key}.to=…") from None
        if not isinstance(value, Mapping):
            raise UserError(f"moving.{key} should be the number that it becomes, not {shown(value)}.") from None
        raise UserError(refused(below, first["msg"], first["input"])) from None
    for by, (_, own) in CURVES.items():
        if by != move.by and getattr(move, own):
            raise UserError(f"moving.{key}.{own} is for by={by}, and this moves by={move.by}: choose by={by}.")
    return move


def _along(key: str, move: Move, iterations: int) -> Ending:
    """Make the curve of a move."""
    curve, own = CURVES[move.by]
    end = iterations if move.end is None else move.end
    if end > iterations:
        raise UserError(f"moving.{key}.end={end} lies beyond the run's {iterations} iterations: lower it, or raise iterations.")
    if getattr(move, own) >= end:
        raise UserError(f"moving.{key}.{own}={getattr(move, own)} should be less than its end, which is {end}: lower it.")
    return curve(iterations, end=end, **{own: getattr(move, own)})


def _movable(choices: Choices, key: str, move: Move) -> Movable:
    """Find the number that a key of `moving` names."""
    top = key.partition(".")[0]
    if top not in MOVABLE:
        reason = "its settings are read once, when a run begins" if top in GROUPS else f"{top} is no group of parts"
        raise UserError(f"moving.{key} cannot move: {reason}; groups with numbers that can are {', '.join(MOVABLE)}.")
    both = [choices["optimizer.g"], choices["optimizer.d"]]
    groups = {key: [choice] for key, choice in choices.by_key.items() if key.partition(".")[0] == top}
    groups |= {top: both} if top == "optimizer" else {}
    group = next((group for group in groups if key.startswith(f"{group}.")), "")
    named = groups.get(group, [])
    name, _, index = key.removeprefix(f"{group}.").partition(".")
    if not named or any(name not in choice.settings for choice in named):
        settings = [f"{key}.{said}" for key, (first, *_) in groups.items() for said in first.settings]
        raise UserError(f"moving.{key} is no setting of this run; {top}= has {', '.join(settings) or 'none'}.")
    if group.startswith("optimizer") and name == "lr":
        raise UserError(f"moving.{key} is a learning rate, which schedule= moves: choose schedule=cosine and schedule.final.")
    starts = [_number(key, choice, name, index) for choice in named]
    if len(set(starts)) > 1:
        own = key.removeprefix(f"{group}.")
        pair = f"moving.optimizer.d.{own} and moving.optimizer.g.{own}"
        raise UserError(f"moving.{key} would begin at different values for D and G: set {pair} instead.")
    return Movable(starts[0], group, name, int(index) if index else None, move)


def _number(key: str, choice: Choice, name: str, index: str) -> float:
    """Return the initial value of a setting, or of one of its numbers."""
    function = choice.target
    hints = get_type_hints(function.__init__ if inspect.isclass(function) else function)
    value, hint = choice.settings[name], hints.get(name, float)
    is_float = hint is float or (get_origin(hint) in (Union, UnionType) and float in get_args(hint))
    if get_origin(hint) is tuple and index.isdecimal() and int(index) < len(value):
        return float(value[int(index)])
    if value is None:
        raise UserError(f"moving.{key} has no number to begin with: set {choice.key}.{name}.")
    if index or not is_float:
        kind = f"a list: name one of its numbers, such as {key}.0" if get_origin(hint) is tuple else "no number that can vary"
        raise UserError(f"moving.{key} cannot move: {choice.called} has {name}={shown(value)}, which is {kind}.")
    return float(value)


def _nodes(values: Mapping[str, Any], group: str) -> list[Node]:
    """Return the nodes whose settings a key names: for `optimizer`, those of both networks."""
    if group == "optimizer":
        return [values["optimizer"]["g"], values["optimizer"]["d"]]
    node: Any = values
    for name in group.split("."):
        node = node[name]
    return [node]
