"""Image sets that torchvision knows how to download."""

from pathlib import Path
from typing import Any, ClassVar

import torch
from filelock import FileLock
from torch import Tensor
from torchvision import datasets
from torchvision.transforms.v2 import functional as transforms

from ganexp.data.dataset import file_stamps, image_shape


class _Vision:
    """The training part of a torchvision set, resized to squares.

    Args:
        root: Where torchvision keeps its sets. A set that is there already is used without touching the network.
        image_size: Side of the square images.
    """

    source: ClassVar[type[Any]]
    folder: ClassVar[str]
    channels: ClassVar[int]

    def __init__(self, root: str, *, image_size: int = 32) -> None:
        self.shape = image_shape(self.channels, image_size)
        self.root = Path(root).expanduser()

    def fingerprint(self) -> list[tuple[str, int, int]]:
        """Name, size and time of every file that torchvision has of the set, or of none before it is downloaded."""
        return file_stamps((path for path in (self.root / self.folder).rglob("*") if path.is_file()), self.root)

    def load(self) -> Tensor:
        """Return `(N, C, image_size, image_size)`, uint8.

        Raises:
            OSError: The set is neither in `root` nor to be had from the network.
        """
        try:
            images = torch.as_tensor(self.source(root=self.root, train=True).data)
        except (OSError, RuntimeError):
            images = self._downloaded()
        images = images.unsqueeze(1) if images.dim() == 3 else images.permute(0, 3, 1, 2)
        if images.shape[1:] == self.shape:
            return images.contiguous()
        return torch.cat([transforms.resize(part, list(self.shape[1:])) for part in images.split(4096)])

    def _downloaded(self) -> Tensor:
        """Download the set, one process at a time: another one then finds it there."""
        name = self.source.__name__
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with FileLock(self.root / f".{name}.lock"):
                return torch.as_tensor(self.source(root=self.root, train=True, download=True).data)
        except (OSError, RuntimeError) as error:
            raise OSError(f"{name} is not in {self.root} and could not be downloaded ({error})") from error


class MNIST(_Vision):
    """60,000 handwritten digits, 28×28 grey (LeCun et al. 1998)."""

    source = datasets.MNIST
    folder = "MNIST"
    channels = 1


class FashionMNIST(_Vision):
    """60,000 articles of clothing, 28×28 grey (Xiao et al. 2017)."""

    source = datasets.FashionMNIST
    folder = "FashionMNIST"
    channels = 1


class CIFAR10(_Vision):
    """50,000 photographs of ten kinds of thing, 32×32 in colour (Krizhevsky 2009)."""

    source = datasets.CIFAR10
    folder = "cifar-10-batches-py"
    channels = 3
