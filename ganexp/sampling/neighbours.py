"""The training images that are nearest to samples, which reveal a generator that has memorised its data."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.feed import to_range
from ganexp.evaluation.nearest import nearest as among
from ganexp.logging.pictures import image_grid
from ganexp.sampling.trained import SamplingError

BYTES_AT_ONCE = 2**26


def nearest(samples: Tensor, data: Tensor | MapStyle[Tensor], k: int = 7) -> tuple[Tensor, Tensor]:
    """Find the `k` real samples that are nearest to each sample by Euclidean distance, pixels in [-1, 1].

    Args:
        samples: `(N, …)`.
        data: `(M, …)`, or a map-style data set of M; uint8 images or floats. Read once, a part at a time.
        k: How many; all if there are fewer.

    Returns:
        Distances `(N, k)` in rising order, and the nearest themselves, `(N, k, …)`.

    Raises:
        SamplingError: There are no data, or they are of another shape.
    """
    if k < 1:
        raise SamplingError(f"there should be 1 or more neighbours, not {k}")
    samples = samples.cpu()
    distances, found = among(samples, _parts(data, samples), lambda images: images.flatten(1), k)
    if not distances.shape[1]:
        raise SamplingError("the data set has no samples to compare with")
    return distances, found


def beside_their_nearest(samples: Tensor, found: Tensor) -> np.ndarray:
    """Draw one row per sample: from left to right the sample, a gap, and the real images nearest to it."""
    gap = torch.ones_like(samples[:, None])
    return image_grid(torch.cat([samples.cpu()[:, None], gap.cpu(), found], 1).flatten(0, 1), columns=2 + found.shape[1])


def _parts(data: Tensor | MapStyle[Tensor], samples: Tensor) -> Iterator[Tensor]:
    size = max(1, BYTES_AT_ONCE // (8 * samples[0].numel()))
    count = len(data)  # type: ignore[arg-type]
    for start in range(0, count, size):
        stop = min(start + size, count)
        part = data[start:stop] if isinstance(data, Tensor) else torch.stack([data[i] for i in range(start, stop)])
        if part.shape[1:] != samples.shape[1:]:
            shapes = ["×".join(map(str, one.shape[1:])) for one in (part, samples)]
            raise SamplingError(f"the data are of shape {shapes[0]}, and the samples of shape {shapes[1]}")
        yield to_range(part.cpu(), samples.dtype)
