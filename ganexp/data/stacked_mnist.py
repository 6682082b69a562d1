"""Three digits as one image: a thousand modes, which a classifier of digits can count."""

import copy
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor

from ganexp.data.dataset import Dataset, Side
from ganexp.data.modes import Classes
from ganexp.data.vision import MNIST
from ganexp.ranges import checked


class StackedMNIST(Dataset):
    """`n` images whose red, green and blue are digits of MNIST, drawn at random (Metz et al. 2017, Srivastava et al. 2017).

    The mode of an image is the number that its three digits make, red first: 1000 modes, about equally likely. `root` is where
    torchvision keeps MNIST, and the `seed` is that of the choice of digits.
    """

    classes = 1000
    modes = Classes(1000)

    @checked
    def __init__(
        self,
        root: str,
        *,
        image_size: Side = 32,
        n: Annotated[int, Ge(1), Le(10_000_000)] = 60_000,
        seed: Annotated[int, Ge(0), Le(2**63 - 1)] = 0,
    ) -> None:
        self.mnist = self.stack_of = MNIST(root, image_size=image_size)
        self.shape = (3, image_size, image_size)
        self.n = n
        self.seed = seed

    def fingerprint(self) -> list[object]:
        return [self.n, self.seed, *self.mnist.fingerprint()]

    def digest(self) -> str:
        return f"{self.mnist.digest()}-{self.n}-{self.seed}"

    def held_out(self) -> "StackedMNIST":
        """Return as many images, but at most 10,000, of digits from MNIST's test part."""
        others = copy.copy(self)
        others.mnist, others.n = self.mnist.held_out(), min(self.n, 10_000)
        return others

    @property
    def is_here(self) -> bool:
        return self.mnist.is_here

    def load(self) -> Tensor:
        """Return `(n, 3, image_size, image_size)`, uint8, the same for the same seed."""
        digits = self.mnist.load()
        return digits[:, 0][self._drawn(len(digits))]

    def labels(self) -> Tensor:
        """Return the mode of each image, `(n,)`, int64, from 0 to 999."""
        digits = self.mnist.labels()
        return digits[self._drawn(len(digits))] @ torch.tensor([100, 10, 1])

    def _drawn(self, count: int) -> Tensor:
        """Return which digits make each image, `(n, 3)`."""
        return torch.randint(count, (self.n, 3), generator=torch.Generator().manual_seed(self.seed))
