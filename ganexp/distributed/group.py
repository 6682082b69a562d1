"""Several processes that train one GAN together, by torch.distributed."""

import contextlib
import itertools
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import Store

from ganexp.batch import Batch, Gradients
from ganexp.distributed.processes import Item, Processes, Result, Whole

PRECEDENCE = timedelta(seconds=3)


class FailedElsewhere(RuntimeError):
    """Another process has failed and reports the error; this one ends silently."""


class DistributedProcesses(Processes):
    """All processes of torch's default process group; each has one slice of every batch, in the order of ranks. See `join`.

    Each share is contiguous in the global batch, so that packs and groups of neighbouring samples are the same for any number
    of processes that divides the batch.

    Args:
        store: The store through which the processes found each other.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self.count = dist.get_world_size()
        self.rank = dist.get_rank()
        self._hosts: Any = dist.new_group(backend="gloo")  # for messages between hosts while devices compute
        self._asked: tuple[Tensor, Any] | None = None

    def __deepcopy__(self, memo: object) -> "DistributedProcesses":
        return self  # a copy trains with the same processes

    def own(self, whole: Whole) -> Whole:
        """Return this process's share of what belongs to the global batch."""
        if isinstance(whole, Batch):
            return whole.map(self.own)
        size, left_over = divmod(len(whole), self.count)
        if left_over:
            raise ValueError(
                f"{len(whole)} samples cannot be shared among {self.count} processes: choose a multiple of {self.count}"
            )
        return whole[self.rank * size : (self.rank + 1) * size]

    def gather(self, share: Tensor) -> Tensor:
        size = len(share)
        whole = share.new_empty(self.count * size, *share.shape[1:])
        dist.all_gather(list(whole.split(size)), share.detach().contiguous())
        if not share.requires_grad:
            return whole
        return torch.cat([whole[: self.rank * size], share, whole[(self.rank + 1) * size :]])

    def sum(self, gradients: Gradients) -> Gradients:
        return summed(gradients)

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of every process's tensor, which can be differentiated twice."""
        summed: Tensor = _Total.apply(value)
        return summed

    def any_rank(self, asked: bool) -> bool:
        """Return whether any process had been asked to stop by the previous call.

        Hosts exchange their answers in the background, during the iteration between two calls.
        """
        before, flag = self._asked, torch.tensor(int(asked))
        self._asked = flag, dist.all_reduce(flag, dist.ReduceOp.MAX, group=self._hosts, async_op=True)
        if before is None:
            return False
        answer, work = before
        work.wait()
        return bool(answer)

    def forget(self) -> None:
        """Forget requests to stop: they concerned the run in which they came."""
        if self._asked:
            self._asked[1].wait()
        self._asked = None

    def tell(self, value: Result) -> list[Result]:
        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value, group=self._hosts)
        return cast(list[Result], values)

    def together(self, action: Callable[[], Result]) -> Result:
        """Run an action in every process, and return this one's result.

        Raises:
            Exception: The action has failed here, and in no process of a lower rank.
            FailedElsewhere: The action has failed in another process, which says why.
        """
        error: BaseException | None = None
        try:
            result = action()
        except (Exception, SystemExit) as raised:
            error = raised
        failed = {
            rank: message
            for rank, message in enumerate(self.tell(None if error is None else str(error)))
            if message is not None
        }
        if not failed:
            return result
        first = min(failed)
        if first == self.rank and error is not None:
            raise error
        raise FailedElsewhere(f"process {first} has failed: {failed[first]}") from None

    def first(self, action: Callable[[], Result]) -> Result:
        return cast(Result, self.tell(self.together(lambda: action() if self.is_main else None))[0])

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply a function to each item, in turns of one item per process; an error is that of the first item that failed.

        Results are pickled and sent after each turn, so that the main process holds one from each process at a time.
        """
        left = iter(items)
        while turn := [*itertools.islice(left, self.count)]:
            result, error = None, None
            try:
                result = work(turn[self.rank]) if self.rank < len(turn) else None
            except Exception as raised:
                raised.add_note(f"In process {self.rank}:\n{traceback.format_exc()}")
                error = raised
            for failed in self.tell(error):
                if failed is not None:
                    raise failed
            results: list[Any] | None = [None] * self.count if self.is_main else None
            dist.gather_object(result, results, group=self._hosts)
            yield from (results or [])[: len(turn)]

    def is_reporter(self) -> bool:
        """Return whether this process is to report why all processes end.

        That is the first process to ask, but the main process has precedence if it has failed too.
        """
        if self._store is None:
            return True
        try:
            if not self.is_main:
                with contextlib.suppress(RuntimeError):
                    self._store.wait(["failure"], PRECEDENCE)
            return self._store.add("failure", 1) == 1
        except RuntimeError:  # the store ended with another process
            return self.is_main

    def close(self) -> None:
        if not dist.is_initialized():
            return
        self.forget()
        self.tell(None)
        self._hosts = None  # ends gloo's threads: one that frees a tensor while Python exits would abort the process
        if torch.__version__ < "2.14":  # in 2.6, one that still frees a tensor would wait for this thread, which waits for it
            time.sleep(0.5)
        dist.destroy_process_group()


def summed(gradients: Gradients) -> Gradients:
    """Return the gradients summed over processes, in one reduction; a gradient is None in all processes or in none."""
    present = [gradient for gradient in gradients if gradient is not None]
    flat = torch.cat([gradient.reshape(-1) for gradient in present])
    dist.all_reduce(flat)
    parts = flat.split([gradient.numel() for gradient in present])
    sums = iter(part.view(gradient.shape).to(gradient.dtype) for part, gradient in zip(parts, present, strict=True))
    return tuple(None if gradient is None else next(sums) for gradient in gradients)


class _Total(torch.autograd.Function):
    """The sum over processes, whose gradient is the sum of every process's gradient, and can be differentiated again."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        summed = value.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(summed)
        return summed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return _Total.apply(gradient)
