"""Tracks which network's pass each tensor comes from: a dispatch mode that carries labels through every operation."""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from ganexp.instruments.counting import key

Label = tuple[str, int]
"""`("pass", n)`: output of pass n. `("gradient", n)`: result of backward pass n. `("mixed", p)`: batch with p percent of fakes.
`("best", n)`: chosen by the scores of pass n. `("mean", n)`: sum with the weights of player n. `("dead", n)`: with a term
that has no gradient. `("sigmoid", n)` or `("softmax", n)`: output of pass n that ends in one."""
Labels = frozenset[Label]

NO_LABELS: Labels = frozenset()
HOST: Label = ("host", 0)
"""The value was copied to the CPU already, so that no further read of it waits."""
MIXING = {"lerp", "add", "mul", "copy"}
TAKES_LOGITS = {
    **dict.fromkeys(("binary_cross_entropy_with_logits", "softplus", "log_sigmoid_forward"), "sigmoid"),
    "_log_softmax": "softmax",
}
"""Operations of losses, with the function that has no place before them."""
SUMS = {"add", "add_", "sub", "sub_"}
OVERWRITE = {"copy_", "zero_", "fill_", "normal_", "uniform_", "random_", "bernoulli_", "_foreach_zero_"}
SHAPE_ONLY = re.compile(r"_like$|^new_")
"""Operations that read the shape of a tensor and none of its values. Views keep the labels of their base, and need no rule."""

ONE_BY_ONE = torch.__version__ < "2.14"
"""Whether one_hot may read the least and the greatest label one after the other, as it does in torch 2.6."""
SCALARS = (int, float, torch.dtype, torch.device, type(None))


def numbers(labels: Labels, kind: str) -> frozenset[int]:
    """Return the numbers of labels of one kind."""
    return frozenset(number for of, number in labels if of == kind)


def tensors(tree: Any) -> Iterator[Tensor]:
    """Yield the tensors in arguments or results."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, list | tuple):  # nearly all arguments; quicker than torch's trees
        for branch in tree:
            yield from tensors(branch)
    elif not isinstance(tree, SCALARS):
        for leaf in tree_leaves(tree):
            if isinstance(leaf, Tensor):
                yield leaf
            elif is_dataclass(leaf) and not isinstance(leaf, type):
                yield from (value for name in fields(leaf) if isinstance(value := getattr(leaf, name.name, None), Tensor))


class _Pauses(threading.local):
    def __init__(self) -> None:
        self.running: list[Flow] = []


class Flow(TorchDispatchMode):
    """Labels the outputs of operations with the labels of their inputs. Weights get no labels.

    Args:
        recorder: The `Recorder`, whose methods `multiplied`, `written`, `averaged`, `rescaled`, `drew` and `waited` are called.
        weights: The owner of the weights at each address.
    """

    _pauses = _Pauses()  # of all flows of a thread: what one of them looks at, no other labels

    def __init__(self, recorder: Any, weights: Mapping[int, int]) -> None:
        super().__init__()
        self.recorder = recorder
        self.weights = weights
        self.gradients: set[int] = set()
        self.operations = 0  # of matrix products and convolutions, as torch counts them
        self._labels: dict[int, tuple[StorageWeakRef, Labels]] = {}
        self.stepping = False  # inside an optimiser's step, where nothing is labelled
        self._extremes: list[int] = []  # addresses of the minimum and maximum that torch has just computed
        self._paused: list[Flow] = []

    def __enter__(self) -> Self:
        self._paused = self._pauses.running  # of this thread, also in autograd's own threads, as on a GPU
        super().__enter__()
        return self

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Label nothing inside."""
        self._paused.append(self)
        try:
            yield
        finally:
            self._paused.remove(self)

    def labels(self, tree: Any) -> Labels:
        """Return the labels of all tensors in arguments or results."""
        entries = (self._labels.get(key(tensor)) for tensor in tensors(tree))
        return NO_LABELS.union(*(entry[1] for entry in entries if entry is not None))

    def mixed(self, inputs: Iterable[Tensor]) -> int:
        """Return the percentage of fakes in a batch that also has other samples; 0 for a slice of such a batch."""
        whole = [tensor for tensor in inputs if _is_whole(tensor)]
        return max(numbers(self.labels(whole), "mixed"), default=0)

    def put(self, outputs: Iterable[Tensor], labels: Labels) -> None:
        """Replace the labels of tensors. The weak reference frees the memory, but keeps its address from being used again."""
        for tensor in outputs:
            memory = key(tensor)
            if memory and memory not in self.weights:
                self._labels[memory] = StorageWeakRef(tensor.untyped_storage()), labels

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.recorder.is_paused:
            return func(*args, **kwargs)
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            output = func(*args, **kwargs)
            self.operations += count(*args, **kwargs, out_val=output)
            if not self._paused:
                self.recorder.multiplied({self.weights[key(tensor)] for tensor in tensors(args) if key(tensor) in self.weights})
                if labels := self.labels((args, kwargs)):
                    self.put(tensors(output), labels)
            return output
        if self._paused or self.stepping:
            return func(*args, **kwargs)
        name = func._schema.name.rpartition("::")[2]
        if name == "_local_scalar_dense":
            # on a CPU alone, one_hot reads extremes to check the labels, and samples are prepared
            if key(args[0]) not in self._extremes and _is_on_the_device(args[0], self.labels(args[0])):
                self.recorder.waited()
        else:
            self._extremes = []
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.recorder.drew()
        labels = self.labels((args, kwargs))
        if name == "_to_copy" and _leaves_device(args, kwargs):
            self.recorder.waited()
            labels |= {HOST}
        if name == "cat" and (share := _share_of_fakes(args, kwargs, self.labels)):
            labels |= {("mixed", share)}
        if name in SUMS and (of := _without_gradient(args, self.labels)):
            labels |= {("dead", self.recorder.dead_term(of))}
        if name in TAKES_LOGITS:
            self.recorder.takes_logits(numbers(self.labels(args[0]), TAKES_LOGITS[name]))
        if func.namespace == "c10d" and "allreduce" in name:
            self.recorder.averages_by_hand = True
        if name == "topk":
            labels |= {("best", number) for number in numbers(labels, "pass")}
        output = func(*args, **kwargs)
        if name == "aminmax" or (ONE_BY_ONE and name in ("min", "max") and not args[0].is_floating_point()):
            self._extremes = [key(tensor) for tensor in tensors(output)]
        if name.removeprefix("_foreach_").removesuffix("_") in MIXING:
            labels |= self._mixed(name, args, output)
        if name.startswith("_foreach_") and not name.endswith("zero_"):
            self._write_each(args[name == "_foreach_copy_" :], args[0] if func._schema.is_mutable else output)
            labels = NO_LABELS
        if func._schema.is_mutable:
            self._write(name, args, labels)
        elif labels and not SHAPE_ONLY.search(name) and not any(returned.alias_info for returned in func._schema.returns):
            self.put(tensors(output), labels)
        return output

    def _mixed(self, name: str, args: Any, output: Any) -> Labels:
        """Return the labels of a sum with weights, and report sums that are written into other memory than weights."""
        writes, each = name.endswith("_"), name.startswith("_foreach_")
        operands = [a for a in (args[1:] if writes else args) if isinstance(a, list | tuple if each else Tensor)]
        owners_of_sum = set[int]()
        for result, *of in zip(args[0] if writes else output, *operands, strict=True) if each else [(output, *operands)]:
            sums = numbers(self.labels(of), "mean")
            own = {self.weights[key(tensor)] for tensor in of if key(tensor) in self.weights}
            owners = sums if name == "copy_" else sums | own
            if writes and key(result) not in self.weights and all(tensor.shape == result.shape for tensor in of):
                for owner in owners:
                    self.recorder.averaged(owner)
            owners_of_sum |= owners
        return NO_LABELS if writes else frozenset(("mean", owner) for owner in owners_of_sum)

    def _write_each(self, args: Any, outputs: Any) -> None:
        """Label each result of an operation on lists by its own operands."""
        lists = [a for a in args if isinstance(a, list | tuple) and a and isinstance(a[0], Tensor)]
        for number, output in enumerate(outputs):
            self.put([output], self.labels([of[number] for of in lists if len(of) == len(lists[0])]))

    def _write(self, name: str, args: Any, labels: Labels) -> None:
        written = [*tensors(args[:1])]
        if "zero" not in name and any(key(tensor) in self.gradients for tensor in written):
            self.recorder.rescaled()
        for tensor in written:
            if key(tensor) in self.weights:
                self.recorder.written(key(tensor), name, tuple(a for a in args[1:] if a is None or isinstance(a, float | int)))
        if name in OVERWRITE and all(map(_is_whole, written)):
            self.put(written, self.labels(args[1:]))
        elif labels:
            self.put(written, labels)


def _is_whole(tensor: Tensor) -> bool:
    """Return whether a tensor fills its memory, and is no slice of it."""
    return not key(tensor) or tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()


def _is_on_the_device(tensor: Tensor, labels: Labels) -> bool:
    """Return whether a value is on a GPU, or would be if the networks were: on a CPU, what comes from them."""
    return tensor.device.type != "cpu" or (bool(labels) and HOST not in labels)


def _leaves_device(args: Any, kwargs: Any) -> bool:
    to_cpu = kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cpu"
    return to_cpu and any(tensor.device.type != "cpu" for tensor in tensors(args))


def _without_gradient(args: Any, labels: Callable[[Any], Labels]) -> frozenset[int]:
    """Return the passes that one of two single numbers comes from if it has no gradient, and the other has one."""
    terms = [argument for argument in args if isinstance(argument, Tensor) and argument.dim() == 0]
    if len(terms) != 2 or not torch.is_grad_enabled() or terms[0].requires_grad == terms[1].requires_grad:
        return frozenset()
    return numbers(labels(terms[terms[0].requires_grad]), "pass")


def _share_of_fakes(args: Any, kwargs: Any, labels: Callable[[Any], Labels]) -> int:
    """Return the percentage of samples from a network in a batch that `cat` makes; 0 if it does not mix them with others.

    Conditions that are concatenated to samples along another dimension do not count.
    """
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    fakes = [len(tensor) for tensor in args[0] if dim == 0 and numbers(labels(tensor), "pass")]
    return 100 * sum(fakes) // sum(map(len, args[0])) if fakes and len(fakes) < len(args[0]) else 0
