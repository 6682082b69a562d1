"""Augmentations: random changes of everything that D scores, so that it cannot learn the data by heart."""

from ganexp.augmentations.ada import Ada
from ganexp.augmentations.apa import Apa
from ganexp.augmentations.base import Augmentation, NoAugmentation
from ganexp.augmentations.diffaugment import DiffAugment

__all__ = ["Ada", "Apa", "Augmentation", "DiffAugment", "NoAugmentation"]
