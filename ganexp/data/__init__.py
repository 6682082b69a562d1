"""Datasets, and the feed that brings them to the device.

A dataset is cheap to construct: it checks its arguments and knows the `shape` of one sample, `(C, H, W)` or `(2,)`,
before anything is read or downloaded. `load()` returns something indexable: a tensor that lies in memory as a whole, uint8
for images and float for points, or a map-style torch dataset of uint8 images, or of floats for `Torch`, read on demand.

A dataset whose samples have sources knows their `source_shape` too; `derive` makes or separates them, batch by batch, on the
device, after the feed.
"""

from ganexp.data.cache import default_folder
from ganexp.data.cache import load as load_cached
from ganexp.data.celeba import CelebA
from ganexp.data.dataset import Dataset
from ganexp.data.decoding import DecodingError, ReadingError, UnlikeError
from ganexp.data.degraded import Degraded
from ganexp.data.digits import Digits
from ganexp.data.fake import Fake
from ganexp.data.feed import Resident, Streamed, feed
from ganexp.data.hub import Hub
from ganexp.data.image_folder import ImageFolder
from ganexp.data.itself import Itself
from ganexp.data.latents import Decoder, Latents
from ganexp.data.mixtures import Grid, Ring
from ganexp.data.of_torch import Torch
from ganexp.data.pairs import Pairs
from ganexp.data.separated import Separated
from ganexp.data.stacked_mnist import StackedMNIST
from ganexp.data.unpaired import Unpaired
from ganexp.data.vision import CIFAR10, CIFAR100, EMNIST, KMNIST, MNIST, STL10, SVHN, FashionMNIST

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "EMNIST",
    "KMNIST",
    "MNIST",
    "STL10",
    "SVHN",
    "CelebA",
    "Dataset",
    "Decoder",
    "DecodingError",
    "Degraded",
    "Digits",
    "Fake",
    "FashionMNIST",
    "Grid",
    "Hub",
    "ImageFolder",
    "Itself",
    "Latents",
    "Pairs",
    "ReadingError",
    "Resident",
    "Ring",
    "Separated",
    "StackedMNIST",
    "Streamed",
    "Torch",
    "UnlikeError",
    "Unpaired",
    "default_folder",
    "feed",
    "load_cached",
]
