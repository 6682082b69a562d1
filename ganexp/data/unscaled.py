"""Images of a folder without scaling, for evaluation."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle
from torch.utils.data import Subset

from ganexp.data.cache import default_folder, load
from ganexp.data.headers import size_of
from ganexp.data.image_folder import ImageFolder
from ganexp.printable import printable


def images_in(place: Path, shape: Sequence[int], most: int | None = None) -> MapStyle[Tensor]:
    """Return the images in a folder or zip archive, all of one shape `(C, H, W)`, as they are.

    Images that cannot be decoded are left out, as when a run trains on a folder, and the log says which; as there, of the
    folders `train` and `test` only the first is read.

    Args:
        place: The folder or archive.
        shape: The shape that they must have; colour becomes grey where C is 1.
        most: The most images that are taken, drawn at random, always the same ones.

    Raises:
        ValueError: There are no images, one is of another size, or `shape` is not a shape of images.
        OSError: The archive cannot be read, or no image can be decoded.
    """
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise ValueError(f"a folder of images does not compare with data of shape {tuple(shape)}")
    folder = ImageFolder(str(place), image_size=1, channels=1 if shape[0] == 1 else 3)
    listed: Any = folder.load()
    size = shape[2], shape[1]
    for path in listed.files:
        found = size_of(functools.partial(folder.place.open, path), decode=True)  # broken ones are left out below
        if found not in (None, size):
            said = ["×".join(map(str, one)) for one in (found, size)]
            raise ValueError(
                f"{printable(path)} has {said[0]} pixels, and the data {said[1]}: scale the images yourself, or set "
                "dataset.image_size, since scaling changes every figure"
            )
    folder.shape = tuple(shape)  # only now, so that smaller images are refused, and not reported as enlarged
    data: Any = load(folder, default_folder())
    if most is None or most >= len(data):
        return data
    return Subset(data, torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:most].tolist())
