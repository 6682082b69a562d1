"""The handwritten digits that ship with scikit-learn."""

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as transforms

from ganexp.data.dataset import image_shape


class Digits:
    """1,797 handwritten digits of 8×8 pixels (UCI optdigits, test part), upscaled; needs no download."""

    def __init__(self, *, image_size: int = 32) -> None:
        self.shape = image_shape(1, image_size)

    def fingerprint(self) -> None:
        """The set never changes."""

    def load(self) -> Tensor:
        """Return `(1797, 1, image_size, image_size)`, uint8."""
        from sklearn.datasets import load_digits  # a second of start-up that only the first run pays

        small = torch.from_numpy(load_digits().images).float().mul(255 / 16).unsqueeze(1)
        large = transforms.resize(
            small, list(self.shape[1:]), interpolation=transforms.InterpolationMode.BICUBIC, antialias=True
        )
        return large.round().clamp(0, 255).to(torch.uint8)
