"""Changes of torch that are undone in any order, since contexts may overlap without being nested."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from ganexp.instruments.counting import SavedTensors

_wrapped: dict[tuple[int, str], tuple[Any, list[Callable[..., Any]]]] = {}
"""The original of each attribute that is wrapped now, and its wrappers from the inside out."""


def wrap(owner: Any, name: str, wrapper: Callable[..., Any]) -> Callable[[], None]:
    """Replace a function by `wrapper(function, …)`, and return what undoes this. The last one puts the original back."""
    original, wrappers = _wrapped.setdefault((id(owner), name), (getattr(owner, name), []))
    wrappers.append(wrapper)

    def install() -> None:
        function = original
        for each in wrappers:
            function = _around(each, function)
        setattr(owner, name, function)

    def undo() -> None:
        wrappers.remove(wrapper)
        install()
        if not wrappers:
            del _wrapped[id(owner), name]

    install()
    return undo


def _around(wrapper: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    return wraps(function)(lambda *args, **kwargs: wrapper(function, *args, **kwargs))


def leave_mode(mode: TorchDispatchMode) -> None:
    """Take a dispatch mode off torch's stack, wherever it is there."""
    stack = _get_current_dispatch_mode_stack()
    above = stack[stack.index(mode) + 1 :]
    for other in [*reversed(above), mode]:
        TorchDispatchMode.__exit__(other, None, None, None)  # a mode's own may have effects, such as printing
    for other in above:
        TorchDispatchMode.__enter__(other)


def leave_hooks(hooks: SavedTensors) -> None:
    """Take hooks on saved tensors off torch's stack, wherever they are there.

    torch 2.6 does not show its stack, so these and other `SavedTensors` must be on top of it.
    """
    stack = torch._C._autograd
    above: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = []
    known = [(each.pack_hook, each.unpack_hook) for each in hooks.nested]
    top = getattr(stack, "_top_saved_tensors_default_hooks", lambda _: known[-1 - len(above)])
    while (pair := top(False)) != (hooks.pack_hook, hooks.unpack_hook):
        stack._pop_saved_tensors_default_hooks()
        above.append(pair)
    hooks.__exit__()
    for pair in reversed(above):
        stack._push_saved_tensors_default_hooks(*pair)
