"""Counts of operations, and of the tensors that autograd keeps for backward passes."""

import threading
from collections import Counter
from collections.abc import Callable, Container
from typing import Self

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode


def operations(function: Callable[[], object]) -> int:
    """Count the floating-point operations of the matrix products and convolutions in a call."""
    # it fails on torch.autograd.grad with respect to a leaf that is an input of a module; a non-leaf works
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


def key(tensor: Tensor) -> int:
    """Return a number that identifies a tensor's storage while it exists, and 0 for a tensor without storage."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):  # such as a functional tensor
        return 0


def weights_of(*networks: nn.Module) -> set[int]:
    """Return the keys of networks' parameters."""
    return {key(p) for network in networks for p in network.parameters()}


class _Contexts(threading.local):
    def __init__(self) -> None:
        self.here: list[SavedTensors] = []


class SavedTensors(saved_tensors_hooks):
    """A context in which `saved` is called for each tensor that autograd saves, except weights.

    torch calls the hooks of the innermost context alone, which calls those around it.

    Args:
        weights: The keys of the weights, which must exist as long as the context.

    Attributes:
        nested: The contexts of the thread in which this one was entered, from the outside in.
    """

    contexts = _Contexts()
    nested: list["SavedTensors"]

    def __init__(self, weights: Container[int]) -> None:
        super().__init__(self._pack, self._unpack)
        self.weights = weights

    def __enter__(self) -> Self:  # type: ignore[override] # torch's returns None
        super().__enter__()
        self.nested = self.contexts.here  # `_pack` may be called in a thread of autograd's, as on a GPU
        self.nested.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        self.nested.remove(self)
        super().__exit__(*error)

    def saved(self, tensor: Tensor) -> Callable[[], None]:
        """Handle a saved tensor, and return the callback for when it is freed."""
        raise NotImplementedError

    def _pack(self, tensor: Tensor) -> "_Saved":
        return _Saved(tensor, [each.saved(tensor) for each in self.nested if key(tensor) not in each.weights])

    @staticmethod
    def _unpack(saved: "_Saved") -> Tensor:
        tensor, version = saved.tensor, saved.tensor._version
        if version != saved.version:  # torch does not check it if there are hooks
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{tensor.type()} {[*tensor.shape]}] is at version {version}; expected version {saved.version} instead."
            )
        return tensor


class _Saved:
    """A saved tensor, which exists as long as autograd keeps it."""

    def __init__(self, tensor: Tensor, freed: list[Callable[[], None]]) -> None:
        self.tensor = tensor if tensor.grad_fn is None else tensor.detach()  # attached, it would keep its own graph alive
        self.version = tensor._version
        self.freed = freed

    def __del__(self) -> None:
        for freed in self.freed:
            freed()


class LiveActivations(SavedTensors):
    """A context that counts the bytes that autograd keeps for backward passes, without weights.

    `now` is the current count, `peak` the largest so far. A storage that several tensors share counts once. Data count by their
    own size, since a batch may be a view of a whole data set.
    """

    def __init__(self, weights: Container[int]) -> None:
        super().__init__(weights)
        self.now = 0
        self.peak = 0
        self._holders: Counter[int] = Counter()
        self._sizes: dict[int, int] = {}

    def saved(self, tensor: Tensor) -> Callable[[], None]:
        """Count a tensor for as long as it is kept."""
        storage = key(tensor)
        whole = tensor.untyped_storage().nbytes() if storage else 0
        size = whole if tensor.requires_grad else min(whole, tensor.numel() * tensor.element_size())
        self._holders[storage] += 1
        self.now += max(0, size - self._sizes.get(storage, 0))
        self._sizes[storage] = max(size, self._sizes.get(storage, 0))
        self.peak = max(self.peak, self.now)

        def freed() -> None:
            self._holders[storage] -= 1
            if self._holders[storage] == 0:
                del self._holders[storage]
                self.now -= self._sizes.pop(storage)

        return freed
