"""Which network's pass each tensor comes from: a dispatch mode that carries labels through every operation."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

Label = tuple[str, int]
"""`("pass", n)` for what a pass made, `("gradient", n)` for what was differentiated, `("mixed", 0)` for joined batches."""
Labels = frozenset[Label]

NONE: Labels = frozenset()
OVERWRITE = {"copy_", "zero_", "fill_", "normal_", "uniform_", "random_", "bernoulli_", "_foreach_zero_"}
SHAPE_ONLY = re.compile(r"_like$|^new_")
"""Operations that take a shape from a tensor, and no values. Views, which have their base's labels, are passed over too."""


class Listener(Protocol):
    """Who hears of weights that are written by hand, and of values that the host waits for."""

    def written(self, memory: int, operation: str, bounds: tuple[Any, ...]) -> None:
        """Hear that the weights in this memory are written by an operation, with these plain arguments."""

    def rescaled(self) -> None:
        """Hear that the gradient of a parameter is written."""

    def drew(self) -> None:
        """Hear that random numbers are drawn."""

    def waited(self) -> None:
        """Hear that the host waits for a value."""


def key(tensor: Tensor) -> int:
    """Return what identifies a tensor's memory while it lives, and 0 if it has none."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):  # a tensor without storage, such as a functional one
        return 0


def tensors(tree: Any) -> Iterator[Tensor]:
    """Yield the tensors in arguments or results."""
    return (one for one in tree_leaves(tree) if isinstance(one, Tensor))


class Flow(TorchDispatchMode):
    """Labels outputs by the labels of inputs. Weights have no labels; what happens inside `paused` is not looked at."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self.listener = listener
        self.weights: set[int] = set()
        self.gradients: set[int] = set()
        self.operations = 0  # of products and convolutions, as torch counts them
        self._labels: dict[int, tuple[StorageWeakRef, Labels]] = {}
        self._paused = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Look at nothing inside."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def labels(self, tree: Any) -> Labels:
        """Return the labels of all tensors in arguments or results."""
        found = (self._labels.get(key(one)) for one in tensors(tree))
        return NONE.union(*(one[1] for one in found if one is not None))

    def put(self, outputs: Iterable[Tensor], labels: Labels) -> None:
        """Replace the labels of tensors. A weak reference keeps no memory, but keeps the key from being used again."""
        for one in outputs:
            place = key(one)
            if place and place not in self.weights:
                self._labels[place] = StorageWeakRef(one.untyped_storage()), labels

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            made = func(*args, **kwargs)
            self.operations += count(*args, **kwargs, out_val=made)
            if not self._paused and (labels := self.labels((args, kwargs))):
                self.put(tensors(made), labels)
            return made
        if self._paused:
            return func(*args, **kwargs)
        name = func._schema.name.rpartition("::")[2]
        if name == "_local_scalar_dense" or (name == "_to_copy" and _leaves_device(args, kwargs)):
            self.listener.waited()
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.listener.drew()
        labels = self.labels((args, kwargs))
        if name == "cat" and _joins_batches(args, kwargs, self.labels):
            labels |= {("mixed", 0)}
        made = func(*args, **kwargs)
        if name.startswith("_foreach_") and not name.endswith("zero_"):
            self._write_each(args[name == "_foreach_copy_" :], args[0] if func._schema.is_mutable else made)
            labels = NONE
        if func._schema.is_mutable:
            self._write(name, args, labels)
        elif labels and not SHAPE_ONLY.search(name) and not any(one.alias_info for one in func._schema.returns):
            self.put(tensors(made), labels)
        return made

    def _write_each(self, args: Any, made: Any) -> None:
        """Label the results of an operation on lists one by one."""
        lists = [one for one in args if isinstance(one, list | tuple) and one and isinstance(one[0], Tensor)]
        for number, one in enumerate(made):
            self.put([one], self.labels([of[number] for of in lists if len(of) == len(lists[0])]))

    def _write(self, name: str, args: Any, labels: Labels) -> None:
        written = [*tensors(args[:1])]
        if "zero" not in name and any(key(one) in self.gradients for one in written):
            self.listener.rescaled()
        for one in written:
            if key(one) in self.weights:
                self.listener.written(key(one), name, tuple(a for a in args[1:] if a is None or isinstance(a, float | int)))
        if name in OVERWRITE:
            self.put(written, self.labels(args[1:]))
        elif labels:
            self.put(written, labels)


def _leaves_device(args: Any, kwargs: Any) -> bool:
    device = kwargs.get("device")
    return device is not None and torch.device(device).type == "cpu" and any(one.device.type != "cpu" for one in tensors(args))


def _joins_batches(args: Any, kwargs: Any, labels: Callable[[Any], Labels]) -> bool:
    """Return whether a concatenation puts samples of a network beside others in one batch, and not beside conditions."""
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    made = [any(kind == "pass" for kind, _ in labels(one)) for one in args[0]]
    return dim == 0 and any(made) and not all(made)
