"""Which network's pass each tensor comes from: a dispatch mode that carries labels through every operation."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from ganexp.instruments.counting import key

Label = tuple[str, int]
"""`("pass", n)` for what a pass made, `("gradient", n)` for what was differentiated, `("mixed", p)` for batches joined with
p percent of fakes, `("best", n)` for what was chosen by a pass's scores, `("mean", n)` for sums with a player's weights."""
Labels = frozenset[Label]

NONE: Labels = frozenset()
MIXING = {"lerp", "add", "mul", "copy"}
OVERWRITE = {"copy_", "zero_", "fill_", "normal_", "uniform_", "random_", "bernoulli_", "_foreach_zero_"}
SHAPE_ONLY = re.compile(r"_like$|^new_")
"""Operations that take a shape from a tensor, and no values. Views, which have their base's labels, are passed over too."""


SCALARS = (int, float, torch.dtype, torch.device, type(None))


class Listener(Protocol):
    """Who hears of weights that are written by hand, and of values that the host waits for."""

    def written(self, memory: int, operation: str, bounds: tuple[Any, ...]) -> None:
        """Hear that the weights in this memory are written by an operation, with these plain arguments."""

    def averaged(self, owner: int) -> None:
        """Hear that weights of a player are mixed into other memory of their shape, as in a moving average."""

    def rescaled(self) -> None:
        """Hear that the gradient of a parameter is written."""

    def drew(self) -> None:
        """Hear that random numbers are drawn."""

    def waited(self) -> None:
        """Hear that the host waits for a value."""


def tensors(tree: Any) -> Iterator[Tensor]:
    """Yield the tensors in arguments or results."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, list | tuple):  # nearly all that operations are given, and quicker than by torch's trees
        for one in tree:
            yield from tensors(one)
    elif not isinstance(tree, SCALARS):
        for one in tree_leaves(tree):
            if isinstance(one, Tensor):
                yield one
            elif is_dataclass(one) and not isinstance(one, type):
                yield from (value for name in fields(one) if isinstance(value := getattr(one, name.name, None), Tensor))


class Flow(TorchDispatchMode):
    """Labels outputs by the labels of inputs. Weights have no labels; what happens inside `paused` is not looked at."""

    def __init__(self, listener: Listener, weights: Mapping[int, int]) -> None:
        super().__init__()
        self.listener = listener
        self.weights = weights  # where they lie, with whose they are
        self.gradients: set[int] = set()
        self.operations = 0  # of products and convolutions, as torch counts them
        self._labels: dict[int, tuple[StorageWeakRef, Labels]] = {}
        self.stepping = False  # in an optimiser's step, where nothing is looked at
        self._ends: list[int] = []  # where the smallest and the largest value lie that torch has just taken
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

    def mixed(self, inputs: Iterable[Tensor]) -> int:
        """Return how many percent of a batch are fakes that were joined to others; 0 for a slice of such a batch."""
        whole = [one for one in inputs if _is_whole(one)]
        return max((share for kind, share in self.labels(whole) if kind == "mixed"), default=0)

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
        if self._paused or self.stepping:
            return func(*args, **kwargs)
        name = func._schema.name.rpartition("::")[2]
        if name == "_local_scalar_dense":
            if key(args[0]) not in self._ends:  # one_hot reads them on a CPU, to check the labels, and not on a GPU
                self.listener.waited()
        else:
            self._ends = []
        if name == "_to_copy" and _leaves_device(args, kwargs):
            self.listener.waited()
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.listener.drew()
        labels = self.labels((args, kwargs))
        if name == "cat" and (share := _share_of_fakes(args, kwargs, self.labels)):
            labels |= {("mixed", share)}
        if name == "topk":
            labels |= {("best", number) for kind, number in labels if kind == "pass"}
        made = func(*args, **kwargs)
        if name == "aminmax":
            self._ends = [key(one) for one in made]
        if name.removeprefix("_foreach_").removesuffix("_") in MIXING:
            labels |= self._mixed(name, args, made)
        if name.startswith("_foreach_") and not name.endswith("zero_"):
            self._write_each(args[name == "_foreach_copy_" :], args[0] if func._schema.is_mutable else made)
            labels = NONE
        if func._schema.is_mutable:
            self._write(name, args, labels)
        elif labels and not SHAPE_ONLY.search(name) and not any(one.alias_info for one in func._schema.returns):
            self.put(tensors(made), labels)
        return made

    def _mixed(self, name: str, args: Any, made: Any) -> Labels:
        """Return the label of a sum with weights, and report those that are written into other memory than weights."""
        writes, each = name.endswith("_"), name.startswith("_foreach_")
        operands = [one for one in (args[1:] if writes else args) if isinstance(one, list | tuple if each else Tensor)]
        found = set()
        for result, *of in zip(args[0] if writes else made, *operands, strict=True) if each else [(made, *operands)]:
            sums = {number for kind, number in self.labels(of) if kind == "mean"}
            owners = sums if name == "copy_" else sums | {self.weights[key(one)] for one in of if key(one) in self.weights}
            if writes and key(result) not in self.weights and all(one.shape == result.shape for one in of):
                for owner in owners:
                    self.listener.averaged(owner)
            found |= owners
        return NONE if writes else frozenset(("mean", owner) for owner in found)

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
        if name in OVERWRITE and all(map(_is_whole, written)):
            self.put(written, self.labels(args[1:]))
        elif labels:
            self.put(written, labels)


def _is_whole(tensor: Tensor) -> bool:
    """Return whether a tensor is all that its memory holds, and not a slice of it."""
    return not key(tensor) or tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()


def _leaves_device(args: Any, kwargs: Any) -> bool:
    device = kwargs.get("device")
    return device is not None and torch.device(device).type == "cpu" and any(one.device.type != "cpu" for one in tensors(args))


def _share_of_fakes(args: Any, kwargs: Any, labels: Callable[[Any], Labels]) -> int:
    """Return how many percent of the samples that are joined to one batch come from a network; 0 if they are not joined.

    Conditions that are put beside samples, along another dimension, join nothing.
    """
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    made = [len(one) for one in args[0] if dim == 0 and any(kind == "pass" for kind, _ in labels(one))]
    return 100 * sum(made) // sum(map(len, args[0])) if made and len(made) < len(args[0]) else 0
