"""Datasets (their contract is in `dataset.py`), and the feed that brings them to the device."""

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
