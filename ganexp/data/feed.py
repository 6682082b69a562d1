"""The feed: an endless iterator of full batches on the device.

The order depends only on the seed and on how many samples have been drawn: one permutation of the whole set after
another, each a function of (seed, epoch), cut into batches without regard to where one epoch ends. So every sample comes
once per epoch, no batch is short, and any dataset serves any batch size.
"""

import functools
import sys
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as MapStyle

from ganexp.streams import stream


def feed(
    data: Tensor | MapStyle[Tensor], batch_size: int, *, seed: int, device: torch.device, dtype: torch.dtype, workers: int = 0
) -> Iterator[Tensor]:
    """Choose the feed that serves what a dataset has loaded."""
    if isinstance(data, Tensor):
        return Resident(data, batch_size, seed=seed, device=device, dtype=dtype)
    return Streamed(data, batch_size, seed=seed, device=device, dtype=dtype, workers=workers)


class Resident:
    """Batches gathered on the device from a tensor that lies there as a whole.

    Args:
        data: `(N, …)`: uint8 images, brought to [-1, 1], or floats, taken as they are.
        batch_size: Samples per batch.
    """

    def __init__(
        self,
        data: Tensor,
        batch_size: int,
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.data = data.to(device)
        self.dtype = dtype
        self._order = functools.partial(index_batches, len(data), batch_size, seed, device)
        self._indices = self._order()

    def seek(self, batches: int) -> None:
        """Go on as if so many batches had been drawn."""
        self._indices = self._order(batches)

    def __iter__(self) -> Iterator[Tensor]:
        return self

    def __next__(self) -> Tensor:
        return to_range(self.data[next(self._indices)], self.dtype)


class Streamed:
    """Batches read by a torch DataLoader from a map-style dataset of uint8 images, in the order of `Resident`."""

    def __init__(
        self,
        data: MapStyle[Tensor],
        batch_size: int,
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        workers: int = 0,
    ) -> None:
        self.device = torch.device(device)
        self.dtype = dtype
        self._order = functools.partial(index_batches, len(data), batch_size, seed, "cpu")  # type: ignore[arg-type]
        context = "fork" if workers and sys.platform == "linux" else None  # a joblib worker's own cannot start others
        self._loader = functools.partial(
            DataLoader, data, num_workers=workers, pin_memory=self.device.type == "cuda", multiprocessing_context=context
        )
        self.seek(0)

    def seek(self, batches: int) -> None:
        """Go on as if so many batches had been drawn."""
        self._batches = iter(self._loader(batch_sampler=(batch.tolist() for batch in self._order(batches))))

    def __iter__(self) -> Iterator[Tensor]:
        return self

    def __next__(self) -> Tensor:
        return to_range(next(self._batches).to(self.device, non_blocking=True), self.dtype)


def index_batches(n: int, batch_size: int, seed: int, device: torch.device | str, drawn: int = 0) -> Iterator[Tensor]:
    """Yield index batches `(batch_size,)` for ever, over the permutations of epochs 0, 1, 2, …, after so many `drawn` ones."""
    epoch, skipped = divmod(drawn * batch_size, n)
    rest = torch.empty(0, dtype=torch.long, device=device)
    while True:
        while len(rest) < batch_size:
            permutation = torch.randperm(n, generator=stream(seed, "data order", index=epoch))
            if rest.is_cuda:
                permutation = permutation.pin_memory()  # so that the copy does not make the host wait
            rest = torch.cat([rest, permutation.to(device, non_blocking=True)[skipped:]])
            epoch, skipped = epoch + 1, 0
        batch, rest = rest[:batch_size], rest[batch_size:]
        yield batch


def to_range(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Bring uint8 pixels from [0, 255] to [-1, 1]; leave floats as they are."""
    return x.to(dtype).div_(127.5).sub_(1) if x.dtype == torch.uint8 else x.to(dtype)
