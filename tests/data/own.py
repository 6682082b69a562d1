"""Torch datasets as users write them."""

import random

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset
from torchvision.transforms.v2.functional import to_pil_image


def pixels(n=9, channels=3, side=32):
    return torch.randint(256, (n, channels, side, side), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


class Own(Dataset):
    """uint8 images with labels."""

    def __init__(self, n: int = 9, channels: int = 3, side: int = 32):
        self.pixels = pixels(n, channels, side)
        self.targets = [i % 3 for i in range(n)]

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, index):
        return self.pixels[index], self.targets[index]


class Uneven(Own):
    """The third image is smaller."""

    def __getitem__(self, index):
        return self.pixels[index][:, : 32 if index != 2 else 30]


class Floats(Own):
    def __getitem__(self, index):
        return self.pixels[index] / 127.5 - 1


class Pictures(Own):
    def __getitem__(self, index):
        return to_pil_image(self.pixels[index]), self.targets[index]


class Points(Dataset):
    def __len__(self):
        return 50

    def __getitem__(self, index):
        return torch.tensor([index / 10, -3.0])


class Drawn(Dataset):
    """Points drawn from every global stream there is, jittered anew each time that one is read."""

    def __init__(self):
        self.points = torch.from_numpy(np.random.randn(30, 2)) + random.random() + torch.rand(())  # noqa: NPY002

    def __len__(self):
        return 30

    def __getitem__(self, index):
        return self.points[index] + 0.1 * (random.gauss(0, 1) + np.random.randn() + torch.randn(()))  # noqa: NPY002


class Listed(Dataset):
    """Anything."""

    def __init__(self, samples, targets=None):
        self.samples = samples
        if targets is not None:
            self.targets = targets

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


class WithoutLength(Dataset):
    def __getitem__(self, index):
        return torch.zeros(1, 2, 2)


class Endless(IterableDataset):
    def __iter__(self):
        yield Image.new("L", (2, 2))
