"""Pixels moved as they are."""

import torch
from torch import Tensor


def moved(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return images whose pixel (i, j) is the pixel (rows[i], columns[j]) of the given ones.

    Args:
        images: `(B, C, H, W)`.
        rows: `(B, 1, H, 1)`, int64, in [0, H).
        columns: `(B, 1, 1, W)`, int64, in [0, W).
    """
    return images.gather(2, rows.expand_as(images)).gather(3, columns.expand_as(images))


def places(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return the indices of rows, `(H, 1)`, and of columns, `(1, W)`."""
    height, width = images.shape[2:]
    return torch.arange(height, device=images.device)[:, None], torch.arange(width, device=images.device)[None]


def translated(images: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Translate images `(B, C, H, W)` by whole pixels, `(B, 1, 1, 1)` each; what comes in is 0, the grey between -1 and 1."""
    rows, columns = (place - by for place, by in zip(places(images), (down, right), strict=True))
    height, width = images.shape[2:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    return torch.where(inside, moved(images, rows.clamp(0, height - 1), columns.clamp(0, width - 1)), 0)
