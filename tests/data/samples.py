"""What the tests of the data are made of."""

import zipfile
from pathlib import Path

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


def save(path, colour=0, size=(4, 4)):
    """Write an image of one colour and of a size `(W, H)`, and the folders on its way."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, colour).save(path)


def zipped(folder):
    """Return an archive beside a folder, of all that it holds."""
    archive = Path(f"{folder}.zip")
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(folder.rglob("*")):
            file.write(path, path.relative_to(folder))
    return archive


class Items(torch.utils.data.Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]
