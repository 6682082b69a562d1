"""Real batches for the strategy: checked, counted and timed."""

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from ganexp.batch import Batch
from ganexp.distributed.processes import Processes

log = logging.getLogger(__name__)

ENOUGH = 1000
"""Real points in one picture; a single batch shows neither every mode nor its width."""
LARGE = 10
"""From this value on, images without negative values are taken for bytes that have become floats."""


class Reals:
    """Counts and times batches as they are drawn, keeps samples for pictures, and refuses invalid batches.

    A source that can be iterated again, such as a DataLoader or a list, starts over whenever it ends; its last batch is left
    out if it is short. A plain tensor is a batch without conditions, and so is the first part of `(images, labels)`. Images go
    to the networks' device and type, conditions to the device.

    Args:
        reals: Batches, each a `Batch` or a tensor `(batch_size, …)` of floats, on any device; in several processes, this one's
            share of each.
        phase: What times the drawing of batches, as the phase `data`.
        batch_size: How many latents the GAN draws for a batch, and so how many samples a real batch must have.
        device, dtype: The device and the type that batches are moved to.
        processes: The processes that train together, whose shares make up a batch.
    """

    def __init__(
        self,
        reals: Iterable[Any],
        phase: Callable[[str], AbstractContextManager[object]],
        *,
        batch_size: int,
        device: torch.device,
        dtype: torch.dtype,
        processes: Processes | None = None,
    ) -> None:
        map_style = isinstance(reals, Dataset) and not isinstance(reals, IterableDataset)
        if map_style or isinstance(reals, Tensor) or not hasattr(reals, "__iter__"):
            raise ValueError(
                f"reals must be batches to iterate over, not a {type(reals).__name__}: "
                f"give ganexp.data.Streamed(data, batch_size={batch_size}) or a DataLoader over it"
            )
        self.source: Any = reals
        self.phase = phase
        self.processes = processes or Processes()
        self.batch_size, self.device, self.dtype = batch_size // self.processes.count, device, dtype
        self.seeks = hasattr(reals, "seek")
        self.passes_once = hasattr(reals, "__next__") and not self.seeks
        self.batches, self.images = 0, 0
        self._last: Batch | None = None
        self._full: Iterator[Batch] = self._full_batches()
        self._first: list[Tensor] = []
        self._range_checked = False
        stated_size = getattr(reals, "batch_size", None)  # feeds and DataLoaders say it before anything is drawn
        if stated_size not in (None, self.batch_size):
            raise ValueError(self._wrong_size(stated_size))

    def seek(self, batches: int, images: int) -> None:
        """Continue after a number of batches and images, by drawing and skipping them if `reals` has no `seek`."""
        if self.seeks:
            self.source.seek(batches)
            self._full = self._full_batches()
        else:
            self._skip_to(batches)
        self.batches, self.images, self._last = batches, images, None

    @property
    def last(self) -> Batch:
        """The batch that was drawn last; where none was drawn yet, the next one."""
        return self.ahead() if self._last is None else self._last

    def ahead(self) -> Batch:
        """Return the batch that is drawn next."""
        batch = next(self._full)
        self._full = itertools.chain([batch], self._full)
        return batch

    def close(self) -> None:
        """Close a feed that reads ahead. Only one that can seek is closed: a plain generator may still be needed."""
        if self.seeks:
            getattr(self.source, "close", lambda: None)()

    @property
    def digest(self) -> str:
        """What identifies the data; empty if that is not known."""
        digest = getattr(self.source, "digest", "")
        return digest if isinstance(digest, str) else ""

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        with self.phase("data"):
            self._last = batch = next(self._full)
        if not self._range_checked:
            self._check_range(batch.values)
        if batch.values.dim() != 4 and sum(map(len, self._first)) < ENOUGH:
            self._first.append(self.processes.gather(batch.values.clone()))
        self.batches += 1
        self.images += len(batch) * self.processes.count
        return batch

    def shown(self) -> Tensor:
        """Return the real samples for a picture: the last images, or the first thousand points, so that axes stay fixed."""
        return self._points() if self._first else self.last.values

    def _points(self) -> Tensor:
        return torch.cat(self._first)[:ENOUGH]

    def state_dict(self) -> dict[str, Any]:
        """Return the digest of the data, the numbers of batches and images drawn, and the points for pictures."""
        points = [self._points()] if self._first else []
        return {"digest": self.digest, "batches": self.batches, "images": self.images, "points": points}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue at the position of a checkpoint's run."""
        self.seek(state["batches"], state["images"])
        self._first = [points.to(self.device) for points in state["points"]]

    def _check_range(self, values: Tensor) -> None:
        """Warn if the images of the first batch are in [0, 1] or [0, 255]; reading their range makes the host wait, once."""
        self._range_checked = True
        if values.dim() == 4:
            low, high = torch.stack(values.aminmax()).tolist()
            from_to_tensor = 0 <= low < high <= 1
            if from_to_tensor or (low >= 0 and high > LARGE):
                log.warning(
                    "The first real batch has its values in [%.3g, %.3g]%s, and generators make images in [-1, 1]: scale them "
                    "by %s, or return uint8.",
                    low,
                    high,
                    ", as ToTensor() makes them" if from_to_tensor else "",
                    "2 * x - 1" if from_to_tensor else "x / 127.5 - 1",
                )

    def _skip_to(self, batches: int) -> None:
        if self.passes_once and batches < self.batches:
            raise ValueError("reals is an iterator, which cannot go back")
        log.warning(
            "%s has no seek() method, so %d batches are drawn and discarded: the resumed run equals an uninterrupted "
            "one only if batches come in the same order as before.",
            type(self.source).__name__,
            batches,
        )
        drawn = self.batches if self.passes_once else 0
        self._full = self._full if self.passes_once else self._full_batches()
        with torch.random.fork_rng(devices=[]):  # a DataLoader draws its seed from the stream that the run continues with
            for _ in range(batches - drawn):
                next(self._full)
            if not batches and not self.passes_once:
                self.ahead()  # as before the first iteration

    def _full_batches(self) -> Iterator[Batch]:
        """Yield the batches of one epoch after another, without the short one that may end each."""
        while True:
            drawn, short = 0, None
            for batch in self.source:
                images = self._batch(batch)
                size = len(images)
                if short is not None or size > self.batch_size or (drawn == 0 and size < self.batch_size):
                    raise ValueError(self._wrong_size(size if short is None else short))
                if size < self.batch_size:
                    short = size
                    continue
                drawn += 1
                yield images
            if drawn == 0 or self.passes_once:
                raise ValueError(
                    f"reals ended after {drawn} batches: give an endless iterator, or what can be iterated again, such as "
                    "a list or a DataLoader"
                )

    def _batch(self, batch: Any) -> Batch:
        first = batch[0] if isinstance(batch, (tuple, list)) and batch else batch
        given = Batch.of(first)
        images = given.values
        if not isinstance(images, Tensor) or images.dim() == 0 or not images.is_floating_point():
            kind = f"{images.dtype} of shape {tuple(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
            raise ValueError(
                f"a batch of reals must be a tensor of floats, ({self.batch_size}, …), images in [-1, 1], alone or before its "
                f"labels, not {kind}"
            )

        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(self.device, self.dtype if tensor.is_floating_point() else None, non_blocking=True)

        return given.map(moved)

    def _wrong_size(self, size: object) -> str:
        return (
            f"reals has batches of {size} and GAN draws {self.batch_size} latents: "
            f"give GAN(…, batch_size={size}), or batches of {self.batch_size}"
        )
