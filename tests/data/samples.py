"""What the tests of the data are made of."""

import numpy as np
import torch
from PIL import Image

from ganexp.data import ImageFolder


def noise(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def folder_of_images(path, n=5):
    path.mkdir()
    for i, image in enumerate(noise(n, 9, 12, 3)):
        Image.fromarray(image).save(path / f"{i}.png")
    return ImageFolder(str(path), image_size=8)


class Items(torch.utils.data.Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]
