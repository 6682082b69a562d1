"""Random images, for benchmarks and dry runs."""

import torch
from torch import Tensor

from ganexp.data.dataset import image_shape


class Fake:
    """`n` images of uniform noise, the same at every load."""

    def __init__(self, *, image_size: int = 32, channels: int = 3, n: int = 1024) -> None:
        if not 1 <= channels <= 1024:
            raise ValueError(f"channels must lie in [1, 1024], not {channels}")
        if n < 1:
            raise ValueError(f"n must be at least 1, not {n}")
        self.shape = image_shape(channels, image_size)
        self.n = n

    def load(self) -> Tensor:
        """Return `(n, channels, image_size, image_size)`, uint8."""
        generator = torch.Generator().manual_seed(0)
        return torch.randint(0, 256, (self.n, *self.shape), dtype=torch.uint8, generator=generator)
