"""Augmentations: random changes to everything that D scores, so that D cannot memorise the data."""

from ganexp.augmentations.ada import Ada
from ganexp.augmentations.apa import Apa
from ganexp.augmentations.base import Augmentation, NoAugmentation
from ganexp.augmentations.diffaugment import DiffAugment

__all__ = ["Ada", "Apa", "Augmentation", "DiffAugment", "NoAugmentation"]
