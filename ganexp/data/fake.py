"""Random images, for benchmarks and dry runs."""

from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor

from ganexp.data.dataset import Dataset, Size, sides
from ganexp.ranges import checked


class Fake(Dataset):
    """`n` images of uniform noise, the same at every load."""

    @checked
    def __init__(
        self, *, image_size: Size = 32, channels: Annotated[int, Ge(1), Le(1024)] = 3, n: Annotated[int, Ge(1)] = 1024
    ) -> None:
        self.shape = (channels, *sides(image_size))
        self.n = n

    def load(self) -> Tensor:
        """Return `(n, channels, H, W)`, uint8."""
        generator = torch.Generator().manual_seed(0)
        return torch.randint(0, 256, (self.n, *self.shape), dtype=torch.uint8, generator=generator)
