"""Sources from the data in place of latents: G's inputs in translation and restoration."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ganexp.batch import Batch
from ganexp.prior import Prior, RealBatches


@dataclass(frozen=True)
class PreviewSamples:
    """Real samples with their sources, for pictures and measurements.

    Args:
        read: Returns the samples of some indices.
        count: Number of samples.
        paired: Whether each real sample is the target of its source.
        held_out: Whether they are kept from training.
    """

    read: Callable[[Sequence[int]], Batch]
    count: int
    paired: bool = True
    held_out: bool = False


class Sources(Prior):
    """Sources of the real batches that a strategy draws.

    A strategy that draws a real batch and then latents gets that batch's own sources, as in textbook loops. If it draws latents
    alone, or a second time, the next real batch is drawn for its sources. So data and sources have the same position and order,
    and an iteration depends on nothing but the batches that it draws.

    Args:
        preview: Samples for pictures and measurements.
        seed, device, dtype: As in `Prior`.
        classes: Number of classes that the networks are conditioned on; the labels are those of the samples.
    """

    is_share = True
    are_sources = True

    def __init__(
        self,
        preview: PreviewSamples,
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        classes: int = 0,
    ) -> None:
        super().__init__(1, seed=seed, device=device, dtype=dtype)
        self.classes = classes
        self.preview = preview
        self._batches: RealBatches[Batch] = RealBatches()

    @property
    def streams(self) -> list[torch.Generator]:
        return []

    def reseed(self, index: int) -> None:
        """Do nothing: sources follow the data."""

    def follow(self, reals: Iterator[Batch]) -> Iterator[Batch]:
        return self._batches.follow(reals)

    def put_back(self) -> None:
        self._batches.put_back()

    def sample(self, n: int) -> Batch:
        """Return the sources of the last real batch, or of the next one if they were sampled before.

        With several processes, they are this process's share of the `n`.
        """
        return self.of(self._batches.take())

    def of(self, reals: Batch) -> Batch:
        """Return the sources of real samples, and the samples as their targets if they are paired."""
        if reals.source is None:
            raise ValueError("these data have no sources, and G needs them: give batches Batch(samples, source=sources)")
        return Batch(reals.source, reals.conditions, target=reals.values if self.preview.paired else None)

    def fixed(self, n: int) -> Batch:
        """Return the same sources at every call, with targets and labels; fewer than `n` if there are fewer."""
        return self._read(range(min(n, self.preview.count)))

    def measured(self, n: int) -> Batch:
        return self.fixed(n)

    def standing(self, n: int) -> Batch:
        """Return `n` sources, some of them repeatedly if there are fewer."""
        return self._read([i % self.preview.count for i in range(n)])

    def in_batches(self, n: int, size: int) -> Iterator[Batch]:
        """Read the sources of `measured` in batches, since all of them may not fit into memory."""
        n = min(n, self.preview.count)
        return (self._read(range(start, min(start + size, n))) for start in range(0, n, size))

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        pass

    def _read(self, indices: Sequence[int]) -> Batch:
        def placed(tensor: Tensor) -> Tensor:
            return tensor.to(self.device, self.dtype if tensor.is_floating_point() else None)

        return self.of(self.preview.read(indices).map(placed))
