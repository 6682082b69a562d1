"""Counts the operations of a backward pass by the weights that they lead to, so that what `inputs=` would save is known."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

Owners = frozenset[int | None]
"""The owners of weights; None stands for a leaf that nobody owns."""


@contextmanager
def counted_by_owners(
    outputs: Iterable[Tensor], owner: Callable[[Tensor], int | None], operations: Callable[[], int]
) -> Iterator[Counter[Owners]]:
    """Count the operations of a backward pass that is run inside, by the owners of the weights that they lead to.

    A node of the graph computes a gradient for each of its operands. Those of a matrix product or a convolution cost the same,
    and each leads to the owners below its operand. With `backward(inputs=…)`, torch computes only what leads to the inputs.

    Args:
        outputs: The tensors that are differentiated.
        owner: Returns the owner of a leaf.
        operations: Returns the number of operations until now.
    """
    counts = Counter[Owners]()
    leads_to = owners_below((tensor.grad_fn for tensor in outputs), owner)
    began = 0

    def before(*_: Any) -> None:
        nonlocal began
        began = operations()

    def after(node: Any) -> None:
        count = operations() - began
        if count:
            below = [function for function, _ in node.next_functions if function is not None]
            operands = [function for function in below if not _is_bias(function)] or below or [node]
            for function in operands:
                counts[leads_to[function]] += count // len(operands)

    inner = [node for node in leads_to if node.next_functions]
    handles = [node.register_prehook(before) for node in inner]
    handles += [node.register_hook(lambda *_, node=node: after(node)) for node in inner]
    try:
        yield counts
    finally:
        for handle in handles:
            handle.remove()


def owners_below(roots: Iterable[Any], owner: Callable[[Tensor], int | None]) -> dict[Any, Owners]:
    """Return the owners of the leaves below each node of a graph."""
    below: dict[Any, Owners] = {}
    todo = [(root, False) for root in roots if root is not None]
    while todo:
        node, children_are_known = todo.pop()
        children = [function for function, _ in node.next_functions if function is not None]
        if children_are_known:
            below[node] = Owners().union(*(below[child] for child in children))
        elif node not in below:
            below[node] = Owners([owner(node.variable)] if hasattr(node, "variable") else [])
            if children:
                todo.append((node, True))
                todo += [(child, False) for child in children if child not in below]
    return below


def _is_bias(node: Any) -> bool:
    """Return whether a node collects the gradient of a vector, which takes no matrix product."""
    return hasattr(node, "variable") and node.variable.dim() < 2
