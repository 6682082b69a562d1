"""Image sets that torchvision knows how to download."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import torch
from filelock import FileLock
from torch import Tensor

from ganexp.data.dataset import Side, stamp
from ganexp.data.digest import of_files
from ganexp.ranges import checked


class _Vision:
    """The training part of a torchvision set, resized to squares.

    Args:
        root: Where torchvision keeps its sets. A set that is there already is used without touching the network.
        image_size: Side of the square images.
    """

    files: ClassVar[str]
    """Where the images lie below `root`, as a pattern."""
    channels: ClassVar[int]
    arguments: ClassVar[dict[str, Any]] = {"train": True}
    """Of torchvision's class, beside `root` and `download`."""
    classes = 10

    @checked
    def __init__(self, root: str, *, image_size: Side = 32) -> None:
        self.shape = (self.channels, image_size, image_size)
        self.root = Path(root).expanduser()

    @property
    def source(self) -> type[Any]:
        """Torchvision's class of the same name."""
        from torchvision import datasets  # slow to import

        return getattr(datasets, type(self).__name__)

    def fingerprint(self) -> list[object]:
        """Where the set lies, and the name, size and times of every file of images; of none before it is downloaded."""
        return [str(self.root.resolve()), *((path.name, *stamp(path)) for path in self._found())]

    def digest(self) -> str:
        """Return what identifies the images wherever they lie."""
        return of_files(self.root, [(str(path.relative_to(self.root)), path.stat().st_size) for path in self._found()])

    def load(self) -> Tensor:
        """Return `(N, C, image_size, image_size)`, uint8.

        Raises:
            OSError: The set is neither in `root` nor to be had from the network, or its files are broken.
        """
        from torchvision.transforms.v2 import functional as transforms  # slow to import

        images = self._read(self._images)
        if images.shape[1:] == self.shape:
            return images.contiguous()
        return torch.cat([transforms.resize(part, list(self.shape[1:])) for part in images.split(4096)])

    def labels(self) -> Tensor:
        """Return the class of each image, `(N,)`, int64, in the order of `load`.

        Raises:
            OSError: As `load` does.
        """
        return self._read(self._classes)

    def _read(self, part: Callable[[Any], Tensor]) -> Tensor:
        """Return a part of torchvision's set; it is downloaded by one process at a time: another one then finds it there."""
        try:
            try:
                source = self.source(root=self.root, **self.arguments)
            except RuntimeError:  # torchvision's word for a set that is not there
                self.root.mkdir(parents=True, exist_ok=True)
                with FileLock(self.root / f".{self.source.__name__}.lock"):
                    source = self.source(root=self.root, **self.arguments, download=True)
            return part(source)
        except Exception as error:  # what a broken file makes torchvision raise has no common type
            raise OSError(self._trouble(error)) from error

    def _images(self, source: Any) -> Tensor:
        """Return the images of torchvision's set as `(N, C, H, W)`."""
        images = torch.as_tensor(source.data)
        images = images.unsqueeze(1) if images.dim() == 3 else images.permute(0, 3, 1, 2)
        if images.shape[1] != self.channels or not images.numel():
            raise ValueError(f"they hold an array of shape {list(source.data.shape)}")
        return images

    def _classes(self, source: Any) -> Tensor:
        """Return the labels of torchvision's set as classes from 0 on."""
        return torch.as_tensor(source.targets).long()

    def _found(self) -> list[Path]:
        return sorted(path for path in self.root.glob(self.files) if path.is_file())

    def _trouble(self, error: Exception) -> str:
        """Return in one sentence what is wrong and what can be done."""
        name, folder = self.source.__name__, (self.root / self.files).parent
        lines = str(error).split("\n")  # torchvision's own list of what it tried has the cause at its end
        reason = next((line.strip() for line in reversed(lines) if line.strip()), type(error).__name__)
        if self._found():
            return (
                f"the files of {name} in {folder} are broken or incomplete ({reason}): "
                "replace them, or delete them to have all downloaded anew"
            )
        return (
            f"{name} is not in {self.root} and cannot be downloaded ({reason}): put its files into {folder}, "
            "name the folder that has them with data_root=…, or take dataset=digits, which needs none"
        )


class MNIST(_Vision):
    """60,000 handwritten digits, 28×28 grey (LeCun et al. 1998)."""

    files = "MNIST/raw/train-images-idx3-ubyte"
    channels = 1


class FashionMNIST(_Vision):
    """60,000 articles of clothing, 28×28 grey (Xiao et al. 2017)."""

    files = "FashionMNIST/raw/train-images-idx3-ubyte"
    channels = 1


class CIFAR10(_Vision):
    """50,000 photographs of ten kinds of thing, 32×32 in colour (Krizhevsky 2009)."""

    files = "cifar-10-batches-py/data_batch_*"
    channels = 3
