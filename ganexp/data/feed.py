"""The feed: an endless iterator of full batches on the device.

The order, and with `flip` which images are mirrored, depend only on the seed and on how many samples have been drawn: one
permutation of the whole set after another, each a function of (seed, epoch), cut into batches without regard to where one
epoch ends. So every sample comes once per epoch, no batch is short, and any dataset serves any batch size. Wherever the
data lie, the batches are the same.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle
from torch.utils.data import default_convert

from ganexp.batch import Batch
from ganexp.data.digest import of_data
from ganexp.data.placement import Place, is_resident
from ganexp.data.workers import loader
from ganexp.distributed.processes import Processes
from ganexp.streams import stream


def feed(
    data: Tensor | MapStyle[Tensor], batch_size: int, *, device: torch.device, place: Place = "auto", **settings: Any
) -> "Resident | Streamed":
    """Return the feed for the data that a dataset has loaded; anything but a tensor is streamed. Both take `settings`."""
    resident = isinstance(data, Tensor) and is_resident(place, data.nbytes, device, loaded=True)
    return (Resident if resident else Streamed)(data, batch_size, device=device, **settings)


CHUNK = 2**21
"""Bytes of batches that a resident feed makes at once: small enough for a cache, large enough that one call costs little."""


class Feed(Iterator[Batch]):
    """The common base of the two feeds.

    Args:
        data: `(N, …)`: uint8 images, brought to [-1, 1], or floats, taken as they are.
        batch_size: Samples per batch, over all processes.
        seed: What the order of the samples, and which are mirrored, follow from.
        device: Where the batches lie.
        dtype: Their type.
        workers: How many processes read ahead, if the data stay where they are.
        flip: Whether each image is mirrored left to right with probability ½, drawn again in each epoch.
        digest: What identifies the data when a run is resumed; by default computed from them.
        labels: `(N,)`, the classes of the samples; every batch then has those of its samples as conditions.
        processes: Those that train together; each gets its share of every batch.
        derive: Adds sources to batches: `Dataset.derive`.
    """

    def __init__(
        self,
        data: Tensor | MapStyle[Tensor],
        batch_size: int,
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        workers: int = 0,
        flip: bool = False,
        digest: str | None = None,
        labels: Tensor | None = None,
        processes: Processes | None = None,
        derive: Callable[[Batch], Batch] = lambda batch: batch,
    ) -> None:
        n, processes = len(data), processes or Processes()  # type: ignore[arg-type]
        if labels is not None and len(labels) != n:
            raise ValueError(f"labels should be as many as the samples, {n}, not {len(labels)}")
        self.data, self.dtype, self.device, self.workers = data, dtype, torch.device(device), workers
        self._derive = derive
        self.batch_size = batch_size // processes.count
        self._global_batch_size, self._seed, self._flip, self._digest, self._labels = batch_size, seed, flip, digest, labels
        self._share = functools.partial(_share, processes, batch_size)
        self._begin()
        self.seek(0)

    def _begin(self) -> None:
        """Prepare for `seek`."""
        raise NotImplementedError

    def _order(self, batches: int, size: int, device: torch.device | str) -> Iterator[Tensor]:
        """Return this process's indices after a number of batches, those of `size` samples of all processes at a time.

        The feed is not part of them: a loader that referred to it would keep its processes alive.
        """
        n, drawn = len(self.data), batches * self._global_batch_size  # type: ignore[arg-type]
        return map(self._share, index_batches(n, size, self._seed, device, drawn, flip=self._flip))

    def seek(self, batches: int) -> None:
        """Continue as if this many batches had been drawn."""
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """The digest of the data, compared when a run is resumed; empty if there is none.

        Unless it was given, it is computed when it is first needed, for the first checkpoint.
        """
        if self._digest is None:
            self._digest = of_data(self.data)
        return self._digest


class Resident(Feed):
    """Batches gathered on the device from a tensor that lies there as a whole, several at once if they are small."""

    data: Tensor

    def _begin(self) -> None:
        self.data = self.data.to(self.device)
        self._labels = None if self._labels is None else self._labels.to(self.device)
        at_once = CHUNK // (self.batch_size * self.data[0].numel() * self.dtype.itemsize)
        self._samples_at_once = self._global_batch_size * min(64, max(1, at_once))

    def seek(self, batches: int) -> None:
        self._indices = self._order(batches, self._samples_at_once, self.device)
        self._ready: list[Batch] = []

    def close(self) -> None:
        """Do nothing, since nothing is read ahead."""

    def __next__(self) -> Batch:
        if not self._ready:
            indices = next(self._indices)
            images = to_range(_gather(self.data, indices, flip=self._flip), self.dtype)
            batches = self._derive(Batch(images, _conditions(self._labels, indices)))
            self._ready = batches.split(self.batch_size)[::-1]
        return self._ready.pop()


class Streamed(Feed):
    """Batches in the order of `Resident`, from data that stay where they are: on a disk, or in the host's memory.

    A torch DataLoader reads ahead, in `workers` processes, until `close`. On a GPU the next batch is copied, from pinned
    memory and on a separate stream, while the current one is being used.
    """

    def _begin(self) -> None:
        on_gpu = self.device.type == "cuda"
        batches = _InBatches(self.data, self._flip)
        self._loader = functools.partial(loader, batches, self.workers, pin_memory=on_gpu, collate_fn=default_convert)
        self._aside = torch.cuda.Stream(self.device) if on_gpu else None

    def seek(self, batches: int) -> None:
        self.close()
        self._drawn = batches
        self._start()

    def close(self) -> None:
        """Stop the worker processes. The next batch would start them again at the same position."""
        self._batches: Iterator[Tensor] | None = None
        self._ahead: Batch | None = None

    def _start(self) -> None:
        indices = map(Tensor.tolist, self._order(self._drawn, self._global_batch_size, "cpu"))
        generator = stream(self._seed, "workers", index=self._drawn)
        self._batches = iter(self._loader(generator=generator, batch_sampler=indices))
        self._indices = self._order(self._drawn, self._global_batch_size, "cpu")  # once more, for the labels

    def __next__(self) -> Batch:
        if self._batches is None:
            self._start()
        self._drawn += 1
        if self._aside is None:
            return self._fetch()
        batch = self._fetch_aside(self._aside) if self._ahead is None else self._ahead
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self._aside)
        for tensor in batch.tensors():
            tensor.record_stream(current)
        self._ahead = self._fetch_aside(self._aside)
        return batch

    def _fetch(self) -> Batch:
        assert self._batches is not None
        images = to_range(next(self._batches).to(self.device, non_blocking=True), self.dtype)
        conditions = () if self._labels is None else _conditions(self._labels, next(self._indices))
        return self._derive(Batch(images, tuple(labels.to(self.device, non_blocking=True) for labels in conditions)))

    def _fetch_aside(self, aside: torch.cuda.Stream) -> Batch:
        with torch.cuda.stream(aside):
            return self._fetch()


def index_batches(
    n: int, batch_size: int, seed: int, device: torch.device | str, drawn: int = 0, *, flip: bool = False
) -> Iterator[Tensor]:
    """Yield index batches `(batch_size,)` for ever, over the permutations of epochs 0, 1, 2, …, from sample `drawn` on.

    With `flip`, an index of n + i means sample i, mirrored.
    """
    epoch, skipped = divmod(drawn, n)
    rest = torch.empty(0, dtype=torch.long, device=device)
    while True:
        while len(rest) < batch_size:
            permutation = torch.randperm(n, generator=stream(seed, "data order", index=epoch))
            if flip:
                permutation += n * torch.randint(2, (n,), generator=stream(seed, "flips", index=epoch))
            if rest.is_cuda:
                permutation = permutation.pin_memory()  # so that the copy does not make the host wait
            rest = torch.cat([rest, permutation.to(device, non_blocking=True)[skipped:]])
            epoch, skipped = epoch + 1, 0
        batch, rest = rest[:batch_size], rest[batch_size:]
        yield batch


def _share(processes: Processes, of: int, indices: Tensor) -> Tensor:
    """Return a process's share of each of n batches of `of` samples, whose indices `(n·of,)` follow one another."""
    return processes.own(indices.view(-1, of).T).T.flatten()


class _InBatches(MapStyle[Tensor]):
    """A dataset that a DataLoader asks for the samples of a whole batch at once."""

    def __init__(self, data: Tensor | MapStyle[Tensor], flip: bool) -> None:
        self.data = data
        self.flip = flip

    def __len__(self) -> int:
        return len(self.data)  # type: ignore[arg-type]

    def __getitems__(self, indices: list[int]) -> Tensor:
        if isinstance(self.data, Tensor):
            return _gather(self.data, torch.tensor(indices), flip=self.flip)
        places = [index % len(self) for index in indices]
        fetch = getattr(self.data, "__getitems__", None)  # torch's own convention for fetching a batch at once
        images = torch.stack(fetch(places) if fetch else [self.data[place] for place in places])
        return _mirrored(images, torch.tensor(indices) >= len(self)) if self.flip else images


def _conditions(labels: Tensor | None, indices: Tensor) -> tuple[Tensor, ...]:
    """Return the labels of samples, some of which may be mirrored, as the conditions of a batch."""
    return () if labels is None else (labels.index_select(0, indices % len(labels)),)


def _gather(data: Tensor, indices: Tensor, *, flip: bool) -> Tensor:
    if flip:
        return _mirrored(data.index_select(0, indices % len(data)), indices >= len(data))
    return data.index_select(0, indices)  # on a CPU ten times as fast as data[indices]


def _mirrored(images: Tensor, which: Tensor) -> Tensor:
    return torch.where(which.view(-1, *[1] * (images.dim() - 1)), images.flip(-1), images)


def to_range(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Bring uint8 pixels from [0, 255] to [-1, 1]; leave floats as they are."""
    return x.to(dtype).div_(127.5).sub_(1) if x.dtype == torch.uint8 else x.to(dtype)


def to_pixels(x: Tensor) -> Tensor:
    """Round images in [-1, 1] to uint8 pixels, as images are saved; values outside are clamped. The result has no graph."""
    return x.float().add(1).mul(127.5).round().clamp(0, 255).to(torch.uint8)
