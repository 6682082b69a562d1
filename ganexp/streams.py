"""Independent random streams, all derived from one seed.

Latents, data order and penalties each draw from a stream of their own, so that what one of them consumes never
shifts another: two strategies that draw latents equally often see the same latents, whatever else they do.
"""

import zlib

import numpy as np
import torch


def stream(seed: int, purpose: str, device: torch.device | str = "cpu", index: int = 0) -> torch.Generator:
    """Return a generator on `device` that is a function of (seed, purpose, index) alone.

    `index` tells apart the members of one family, for example the epochs of the data order.
    """
    entropy = np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), index])
    return torch.Generator(device).manual_seed(int(entropy.generate_state(1, np.uint64)[0] >> np.uint64(1)))
