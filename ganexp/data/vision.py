"""Image sets from torchvision that are held in memory as a whole."""

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import torch
from torch import Tensor

from ganexp.data.dataset import Side
from ganexp.data.downloaded import Downloaded
from ganexp.ranges import checked


class _Vision(Downloaded):
    """A torchvision set whose images are one array of uint8."""

    classes = 10
    test_files: str
    """The pattern of the test part's files, as `files` for the training part."""
    test_arguments: Mapping[str, Any] = {"train": False}
    labels_in = "targets"
    """The attribute of torchvision's class that holds the labels."""

    def load(self) -> Tensor:
        """Return `(N, C, image_size, image_size)`, uint8."""
        from torchvision.transforms.v2 import functional as transforms  # slow to import

        images = self._read(self._images)
        if images.shape[1:] == self.shape:
            return images.contiguous()
        return torch.cat([transforms.resize(part, list(self.shape[1:])) for part in images.split(4096)])

    def labels(self) -> Tensor:
        return self._read(self._classes)

    @functools.cached_property
    def class_names(self) -> list[str]:  # type: ignore[override]  # read when it is first needed
        """The names that torchvision gives the classes; none for house numbers."""
        names = list(self._read(self._names)) if self.classes else []
        return names if len(names) == self.classes else []

    def held_out(self) -> Self:
        part = copy.copy(self)
        part.files, part.arguments = self.test_files, {**self.arguments, **self.test_arguments}
        return part

    def _images(self, source: Any) -> Tensor:
        """Return the images of torchvision's set as `(N, C, H, W)`."""
        images = self._arranged(torch.as_tensor(source.data))
        if images.shape[1] != self.channels or not images.numel():
            raise ValueError(f"they hold an array of shape {list(source.data.shape)}")
        return images

    def _arranged(self, images: Tensor) -> Tensor:
        """Bring torchvision's array, `(N, H, W)`, `(N, H, W, C)` or `(N, C, H, W)`, to `(N, C, H, W)`."""
        if images.dim() == 3:
            return images.unsqueeze(1)
        return images if images.shape[1] == self.channels else images.permute(0, 3, 1, 2)

    def _names(self, source: Any) -> Sequence[str]:
        return getattr(source, "classes", ())

    def _classes(self, source: Any) -> Tensor:
        """Return the labels of torchvision's set as classes from 0 on."""
        return torch.as_tensor(getattr(source, self.labels_in)).long()


class MNIST(_Vision):
    """60,000 handwritten digits, 28×28 grey (LeCun et al. 1998)."""

    files = "MNIST/raw/train-images-idx3-ubyte"
    test_files = "MNIST/raw/t10k-images-idx3-ubyte"
    channels = 1


class FashionMNIST(_Vision):
    """60,000 articles of clothing, 28×28 grey (Xiao et al. 2017)."""

    files = "FashionMNIST/raw/train-images-idx3-ubyte"
    test_files = "FashionMNIST/raw/t10k-images-idx3-ubyte"
    channels = 1


class KMNIST(_Vision):
    """60,000 cursive characters of ten hiragana, 28×28 grey (Kuzushiji-MNIST, Clanuwat et al. 2018)."""

    files = "KMNIST/raw/train-images-idx3-ubyte"
    test_files = "KMNIST/raw/t10k-images-idx3-ubyte"
    channels = 1


Split = Literal["byclass", "bymerge", "balanced", "letters", "digits", "mnist"]


class EMNIST(_Vision):
    """Handwritten letters and digits, 28×28 grey (Cohen et al. 2017), upright: its files have rows and columns exchanged.

    Split `byclass` has all images, of 62 digits, capitals and small letters; `bymerge` has them in 47 classes, where small
    letters that look like their capitals count as capitals; `balanced` has equally many of each of the 47. `letters` has 26
    classes, `digits` and `mnist` 10.
    """

    channels = 1

    @checked
    def __init__(self, root: str, *, split: Split = "balanced", image_size: Side = 32) -> None:
        self.arguments = {"split": split, "train": True}
        self.files = f"EMNIST/raw/emnist-{split}-train-images-idx3-ubyte"
        self.test_files = f"EMNIST/raw/emnist-{split}-test-images-idx3-ubyte"
        self.classes = {"byclass": 62, "bymerge": 47, "balanced": 47, "letters": 26, "digits": 10, "mnist": 10}[split]
        self._first = int(split == "letters")  # there the labels begin with 1
        super().__init__(root, image_size=image_size)

    def _arranged(self, images: Tensor) -> Tensor:
        return super()._arranged(images).transpose(2, 3)

    def _classes(self, source: Any) -> Tensor:
        return super()._classes(source) - self._first

    def _names(self, source: Any) -> Sequence[str]:
        return super()._names(source)[self._first :]


class CIFAR10(_Vision):
    """50,000 photographs of ten kinds of thing, 32×32 in colour (Krizhevsky 2009)."""

    files = "cifar-10-batches-py/data_batch_*"
    test_files = "cifar-10-batches-py/test_batch"
    channels = 3


class CIFAR100(_Vision):
    """50,000 photographs of a hundred kinds of thing, 32×32 in colour (Krizhevsky 2009)."""

    files = "cifar-100-python/train"
    test_files = "cifar-100-python/test"
    channels = 3
    classes = 100


class SVHN(_Vision):
    """73,257 house numbers, centred on one digit each, 32×32 in colour (Netzer et al. 2011)."""

    files = "train_32x32.mat"
    test_files = "test_32x32.mat"
    channels = 3
    arguments: Mapping[str, Any] = {"split": "train"}
    test_arguments: Mapping[str, Any] = {"split": "test"}
    labels_in = "labels"


class STL10(_Vision):
    """105,000 photographs, 96×96 in colour (Coates et al. 2011): 5,000 labelled (`train`), 100,000 `unlabeled`, or both."""

    test_files = "stl10_binary/test_X.bin"
    channels = 3
    test_arguments: Mapping[str, Any] = {"split": "test"}
    labels_in = "labels"

    @checked
    def __init__(
        self, root: str, *, split: Literal["train+unlabeled", "train", "unlabeled"] = "train+unlabeled", image_size: Side = 96
    ) -> None:
        self.arguments = {"split": split}
        self.files = f"stl10_binary/{'*n*' if split == 'train+unlabeled' else split}_X.bin"  # in "test", there is no n
        self.classes = 10 if split == "train" else 0
        super().__init__(root, image_size=image_size)

    def labels(self) -> Tensor:
        if not self.classes:
            raise ValueError(f"split should be train where labels are needed, not {self.arguments['split']}")
        return super().labels()
