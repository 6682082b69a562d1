"""The nearest real samples of generated ones, which show whether the generator has memorised its data."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

COMPARED = 64
"""The number of real samples whose distances to the nearest others are a yardstick for those of generated ones."""


@torch.no_grad()
def nearest(samples: Tensor, reals: Iterable[Tensor], see: Callable[[Tensor], Tensor], k: int) -> tuple[Tensor, Tensor]:
    """Find the `k` real samples that are nearest to each sample, in one pass through the real ones.

    Memory holds one batch of real samples, and the result.

    Args:
        samples: `(N, …)`.
        reals: Batches `(B, …)` of real samples of the same shape.
        see: Maps `(B, …)` to pixels or features `(B, F)`, whose Euclidean distances are taken.
        k: The number of nearest samples; all if there are fewer.

    Returns:
        Distances `(N, k)` in rising order, and the nearest real samples, `(N, k, …)`, on the CPU.
    """
    mapped = see(samples).double()
    distances = torch.empty(len(samples), 0, dtype=torch.float64)
    images = samples.cpu()[:, None][:, :0]
    for batch in reals:
        # Not cdist's expansion into a matrix product, which loses the digits of small distances.
        apart = torch.cdist(mapped, see(batch).double(), compute_mode="donot_use_mm_for_euclid_dist")
        best, which = apart.topk(min(k, len(batch)), dim=1, largest=False)
        distances = torch.cat([distances, best.cpu()], 1)
        images = torch.cat([images, batch.cpu()[which.cpu()]], 1)
        distances, order = distances.sort(dim=1, stable=True)
        distances, order = distances[:, :k], order[:, :k]
        images = images[torch.arange(len(images))[:, None], order]
    return distances, images


def as_yardstick(apart: Tensor) -> str:
    """Say how far real samples are from the nearest others, by `nearest`, which finds each of them at a distance of 0 first."""
    others = apart[:, min(1, apart.shape[1] - 1)].sort().values
    return f"{others.median():.4g} in the median of {len(others)}, from {others[0]:.4g} to {others[-1]:.4g}"
