"""The distribution of latents z and of their class labels."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Generic, Literal, TypeVar

import torch
from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch
from ganexp.ranges import checked
from ganexp.streams import stream

Item = TypeVar("Item")
COLUMNS = 8
"""How many consecutive fixed latents have the same label; grids of pictures have as many columns."""


class RealBatches(Generic[Item]):
    """Real batches on their way to a strategy, and the one that the next sample belongs to.

    Where a strategy draws a real batch and then samples, the sample belongs to that batch. Where it samples alone, or once
    more, the next real batch is drawn for the sample.
    """

    def __init__(self) -> None:
        self.count = 0
        """How many have been drawn."""
        self._reals: Iterator[Item] = iter(())
        self._last: list[Item] = []
        self._unused: list[Item] = []

    def follow(self, reals: Iterator[Item]) -> Iterator[Item]:
        """Return the real batches of an iteration on their way to the strategy."""
        self._reals, self._last, self._unused = reals, [], []
        return self._noted()

    def put_back(self) -> None:
        """Let the batch that was drawn last count as not sampled for yet."""
        self._unused = self._last

    def take(self) -> Item:
        """Return the batch that the next sample belongs to."""
        (batch,), self._unused = self._unused or [self._drawn()], []
        return batch

    def _noted(self) -> Iterator[Item]:
        for batch in self._reals:
            self.count += 1
            self._last = self._unused = [batch]
            yield batch

    def _drawn(self) -> Item:
        batch = next(self._reals)
        self.count += 1
        return batch


class Prior:
    """Latent vectors with independent coordinates: standard normal, or uniform on (-1, 1) as in DCGAN and BEGAN.

    Args:
        latent_dim: Length of one latent vector.
        distribution: `normal` or `uniform`.
        seed: Seed of all streams: those for training, and separate ones for pictures and measurements.
        device, dtype: Device and type of the latents; their values depend on the device's own generator.
        frequencies: How often each class is drawn, for a conditional GAN: proportions or counts, one per class. Labels come
            from a stream of their own, so that latents are the same with labels and without.
    """

    is_share = False
    """Whether `sample` draws this process's share alone, rather than the batch of all processes."""

    are_sources = False
    """Whether it draws sources from the data in place of latents."""

    @checked
    def __init__(
        self,
        latent_dim: Annotated[int, Ge(1)],
        distribution: Literal["normal", "uniform"] = "normal",
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        frequencies: Sequence[float] | Tensor | None = None,
    ) -> None:
        self.latent_dim = latent_dim
        self.distribution = distribution
        self.seed = seed
        self.device = torch.device(device)
        self.dtype = dtype
        self.rng = self._stream("latents")
        self.label_rng = None if frequencies is None else self._stream("labels")
        self.classes = 0 if frequencies is None else len(frequencies)
        shares = torch.as_tensor([1.0] if frequencies is None else frequencies, dtype=torch.float64)
        self._ends = (shares.cumsum(0) / shares.sum())[:-1].to(self.device)
        """Where in [0, 1) the next class begins."""

    @property
    def streams(self) -> list[torch.Generator]:
        """The random streams that training draws from."""
        return [self.rng] if self.label_rng is None else [self.rng, self.label_rng]

    def reseed(self, index: int) -> None:
        """Switch training latents, and labels, to the `index`-th stream of the same seed."""
        self.rng = self._stream("latents", index)
        self.label_rng = self.label_rng and self._stream("labels", index)

    def follow(self, reals: Iterator[Batch]) -> Iterator[Batch]:
        """Return the real batches of an iteration, unpacked, for the strategy."""
        return reals

    def put_back(self) -> None:
        """Treat the last real batch as not sampled for yet, if samples belong to real batches."""

    def sample(self, n: int) -> Batch:
        """Draw the next `n` training latents, `(n, latent_dim)`."""
        return Batch(self._draw(n, self.rng), self._labels(n, self.label_rng))

    def fixed(self, n: int) -> Batch:
        """Return the same `n` latents at every call, `(n, latent_dim)`, without advancing the training stream.

        Labels are in order, one for every row of a grid of pictures; some are left out if there are more classes than rows.
        """
        rows = torch.arange(n, device=self.device) // COLUMNS
        labels = (rows * self.classes // -(-n // COLUMNS),) if self.classes else ()
        return Batch(self._draw(n, self._stream("fixed latents")), labels)

    def measured(self, n: int) -> Batch:
        """Return the same `n` latents at every call, with labels as frequent as in the data, for measurements.

        They differ from those of training and of pictures, whose streams do not advance.
        """
        return self._apart(n, "measured")

    def in_batches(self, n: int, size: int) -> Iterable[Batch]:
        """Return the same latents in batches of at most `size`."""
        return self.measured(n).split(size)

    def standing(self, n: int) -> Batch:
        """Return other latents than `measured`, for the statistics that networks gather before they are measured."""
        return self._apart(n, "standing")

    def state_dict(self) -> dict[str, Tensor]:
        """Return the positions of the training streams."""
        return {"rng": self.rng.get_state()} | ({} if self.label_rng is None else {"label_rng": self.label_rng.get_state()})

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore the positions of the training streams."""
        self.rng.set_state(state["rng"])
        if self.label_rng is not None:
            self.label_rng.set_state(state["label_rng"])

    def _apart(self, n: int, purpose: str) -> Batch:
        labels = self._labels(n, self._stream(f"{purpose} labels") if self.classes else None)
        return Batch(self._draw(n, self._stream(f"{purpose} latents")), labels)

    def _stream(self, purpose: str, index: int = 0) -> torch.Generator:
        return stream(self.seed, purpose, self.device, index)

    def _labels(self, n: int, rng: torch.Generator | None) -> tuple[Tensor, ...]:
        if rng is None:
            return ()
        share = torch.empty(n, device=self.device, dtype=torch.float64).uniform_(generator=rng)
        return (torch.bucketize(share, self._ends, right=True),)

    def _draw(self, n: int, rng: torch.Generator) -> Tensor:
        z = torch.empty(n, self.latent_dim, device=self.device, dtype=self.dtype)
        return z.normal_(generator=rng) if self.distribution == "normal" else z.uniform_(-1, 1, generator=rng)
