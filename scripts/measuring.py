"""How scripts measure: interleaved times, counted operations, counted activations."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ganexp import GAN


@dataclass
class Contender:
    """One row of a comparison: a name, one iteration, and what was measured of it."""

    name: str
    step: Callable[[], None]
    gan: GAN | None = None
    read_phases_ms: Callable[[], dict[str, float]] = dict
    times_ms: list[float] = field(default_factory=list)
    phases_ms: list[dict[str, float]] = field(default_factory=list)


def race(contenders: Sequence[Contender], *, repeats: int, iterations: int, device: torch.device) -> None:
    """Time all contenders in turn, `repeats` times, starting with another one each time, so that drift hits all alike."""
    for contender in contenders:
        for _ in range(2 if device.type == "cpu" else 6):  # on a GPU, iterations may be recorded meanwhile
            contender.step()
        contender.read_phases_ms()
    for repeat in range(repeats):
        first = repeat % len(contenders)
        for contender in [*contenders[first:], *contenders[:first]]:
            synchronize(device)
            start = time.perf_counter()
            for _ in range(iterations):
                contender.step()
            synchronize(device)
            contender.times_ms.append(1000 * (time.perf_counter() - start) / iterations)
            contender.phases_ms.append({name: ms / iterations for name, ms in contender.read_phases_ms().items()})


def synchronize(device: torch.device) -> None:
    """Wait for the device, where it is one that works on its own."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def operations(function: Callable[[], object]) -> int:
    """Count the floating-point operations of the matrix products and convolutions in a call."""
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


class LiveActivations:
    """Counts, as a context, the bytes that autograd keeps for backward passes; parameters do not count.

    `now` is what is kept at the moment, `peak` the most that was.
    """

    def __init__(self, gan: GAN) -> None:
        self._own = {p.untyped_storage().data_ptr() for net in (gan.generator, gan.discriminator) for p in net.parameters()}
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        self.holders: dict[int, int] = {}
        self.now = 0
        self.peak = 0

    def __enter__(self) -> "LiveActivations":
        self._hooks.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._hooks.__exit__(kind, error, trace)

    def _pack(self, tensor: Tensor) -> "Tensor | _Kept":
        return tensor if tensor.untyped_storage().data_ptr() in self._own else _Kept(self, tensor)

    @staticmethod
    def _unpack(packed: "Tensor | _Kept") -> Tensor:
        return packed.tensor if isinstance(packed, _Kept) else packed


class _Kept:
    """A saved tensor, on the books for as long as autograd keeps it; a shared storage counts once."""

    def __init__(self, books: LiveActivations, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self.books, self.key, self.size = books, storage.data_ptr(), storage.nbytes()
        self.tensor = tensor.detach()  # attached, it would keep its own graph alive
        holders = books.holders.get(self.key, 0)
        books.holders[self.key] = holders + 1
        if holders == 0:
            books.now += self.size
            books.peak = max(books.peak, books.now)

    def __del__(self) -> None:
        self.books.holders[self.key] -= 1
        if self.books.holders[self.key] == 0:
            del self.books.holders[self.key]
            self.books.now -= self.size
