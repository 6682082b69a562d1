"""Ranges of arguments, declared where the arguments are: `gamma: Annotated[float, Gt(0), Le(1)]`.

The configuration reads the same annotations, and gives the same message for a value from the command line.
"""

import functools
import inspect
import math
import operator
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

P = ParamSpec("P")
T = TypeVar("T")

BOUNDS: dict[type, tuple[str, str, Callable[[Any, Any], bool]]] = {
    Gt: ("gt", "must be greater than", operator.gt),
    Ge: ("ge", "must be at least", operator.ge),
    Lt: ("lt", "must be less than", operator.lt),
    Le: ("le", "must be at most", operator.le),
}
"""For each type of bound: its attribute, its wording, and its test."""


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function or a constructor to refuse arguments outside the ranges of its annotations.

    Every float must be finite, and every integer whole. The decorated function raises a ValueError whose sentence begins with
    the argument's name.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        hints = get_type_hints(function, include_extras=True)
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            for wanted in _violated(value, hints.get(name)):
                raise ValueError(f"{name} {wanted}; got {'an empty value' if value == '' else value}")
        return function(*args, **kwargs)

    return call


def _violated(value: Any, hint: Any) -> Iterator[str]:
    """Yield, in words, the requirements of an annotation that a value does not meet."""
    if get_origin(hint) is Annotated:
        base, *bounds = get_args(hint)
        wrong = [*_violated(value, base)]
        yield from wrong
        for bound in bounds if not wrong else ():
            attribute, words, holds = BOUNDS[type(bound)]
            limit = getattr(bound, attribute)
            if not holds(value, limit):
                yield f"{words} {limit}"
    elif get_origin(hint) is Literal and value not in get_args(hint):
        yield f"must be {' or '.join(map(str, get_args(hint)))}"
    elif get_origin(hint) in (Union, types.UnionType):
        if value is not None:
            kinds = [kind for kind in get_args(hint) if kind is not type(None)]
            several = isinstance(value, (list, tuple))
            yield from _violated(value, next((kind for kind in kinds if (get_origin(kind) is tuple) == several), kinds[0]))
    elif get_origin(hint) is Sequence:
        for part in value:
            yield from _violated(part, *get_args(hint))
    elif get_origin(hint) is tuple:
        inside = get_args(hint)
        for part, inner in zip(value, inside[:1] * len(value) if ... in inside else inside, strict=False):
            yield from _violated(part, inner)
    elif hint is str and value == "":
        yield "needs a value"
    elif hint is float and not math.isfinite(value):
        yield "needs a finite number"
    elif hint is int and (isinstance(value, bool) or not hasattr(value, "__index__")):
        yield "needs an integer"
