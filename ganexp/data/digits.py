"""The handwritten digits that ship with scikit-learn."""

import torch
from torch import Tensor

from ganexp.data.dataset import Dataset, Side
from ganexp.ranges import checked

STEEPER = 2.0
"""How much steeper edges are made in upscaled images: of 1, 2, 3, …, the one that best averages to the original's pixels.

Averages over 4×4 blocks differ from the original by 0.052 (rms), and by 0.063 for bicubic upscaling alone.
"""


class Digits(Dataset):
    """1,797 handwritten digits of 8×8 pixels (UCI optdigits, test part), upscaled; needs no download.

    The originals count the black pixels of bitmaps that were four times as large. Interpolation alone would show blurred
    strokes, so edges are then made steeper, which also brings them nearer to the bitmaps.
    """

    classes = 10

    @checked
    def __init__(self, *, image_size: Side = 32) -> None:
        self.shape = (1, image_size, image_size)

    def fingerprint(self) -> float:
        """Return how steep edges are made: besides the shape, the images depend on nothing else."""
        return STEEPER

    def load(self) -> Tensor:
        """Return `(1797, 1, image_size, image_size)`, uint8."""
        from sklearn.datasets import load_digits  # seconds of start-up that only the first run pays
        from torchvision.transforms.v2 import functional as transforms

        small = torch.from_numpy(load_digits().images).float().mul(255 / 16).unsqueeze(1)
        large = transforms.resize(
            small, list(self.shape[1:]), interpolation=transforms.InterpolationMode.BICUBIC, antialias=True
        )
        if self.shape[-1] > small.shape[-1]:
            large = (large - 127.5) * STEEPER + 127.5
        return large.round().clamp(0, 255).to(torch.uint8)

    def labels(self) -> Tensor:
        from sklearn.datasets import load_digits

        return torch.from_numpy(load_digits().target).long()
