"""Moving the pixels of images, by whole pixels or with bilinear resampling."""

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
    """Translate images `(B, C, H, W)` by whole pixels, `(B, 1, 1, 1)` each; new pixels are 0, the grey between -1 and 1."""
    rows, columns = (place - by for place, by in zip(places(images), (down, right), strict=True))
    height, width = images.shape[2:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    return torch.where(inside, moved(images, rows.clamp(0, height - 1), columns.clamp(0, width - 1)), 0)


def shifted(images: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Translate images `(B, C, H, W)` by whole pixels, `(B, 1, 1, 1)` each; new pixels are mirrored at the edge."""
    rows, columns = (
        _mirrored(place - by, side) for place, by, side in zip(places(images), (down, right), images.shape[2:], strict=True)
    )
    return moved(images, rows, columns)


def turned(images: Tensor, quarters: Tensor) -> Tensor:
    """Rotate square images `(B, C, S, S)` counter-clockwise by `quarters` right angles, `(B, 1, 1, 1)` in {0, 1, 2, 3}."""
    rotated = images
    for count in (1, 2, 3):
        rotated = torch.where(quarters == count, images.rot90(count, (2, 3)), rotated)
    return rotated


def positions(
    images: Tensor, scale: Tensor, before: Tensor, stretch: Tensor, after: Tensor, down: Tensor, right: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the source positions of pixels if images are scaled, rotated, stretched, rotated and translated, in this order.

    The rows and columns, `(B, 1, H, W)`, are in pixels from the first one's centre, as `warped` takes them. Rotations are
    clockwise, around the images' centre.

    Args:
        images: `(B, C, H, W)`.
        scale: The factor of the size, `(B, 1, 1, 1)` like the following.
        before: An angle in radians.
        stretch: The factor of the width, and the divisor of the height.
        after: An angle in radians.
        down: In pixels.
        right: In pixels.
    """
    middle = [(side - 1) / 2 for side in images.shape[2:]]
    y, x = (place.to(images.dtype) - at for place, at in zip(places(images), middle, strict=True))
    y, x = y - down, x - right
    y, x = after.cos() * y - after.sin() * x, after.sin() * y + after.cos() * x
    y, x = y * stretch, x / stretch
    y, x = before.cos() * y - before.sin() * x, before.sin() * y + before.cos() * x
    return y / scale + middle[0], x / scale + middle[1]


def warped(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return images whose pixel (i, j) is interpolated at (rows, columns)[i, j], between four pixels.

    Interpolation is bilinear, and images are mirrored at the outermost pixels' centres. Torch's `grid_sample` has no second
    derivative, which penalties need.

    Args:
        images: `(B, C, H, W)`.
        rows: `(B, 1, H, W)`, in pixels from the first one's centre.
        columns: Likewise.
    """
    height, width = images.shape[2:]
    top, left = rows.floor(), columns.floor()
    down, right = rows - top, columns - left
    result = torch.zeros_like(images)
    for step_down, share_down in ((0, 1 - down), (1, down)):
        row = _mirrored(top.long() + step_down, height)
        for step_right, share_right in ((0, 1 - right), (1, right)):
            column = _mirrored(left.long() + step_right, width)
            index = (row * width + column).flatten(2).expand(-1, images.shape[1], -1)
            result = result + share_down * share_right * images.flatten(2).gather(2, index).view_as(images)
    return result


def _mirrored(places: Tensor, side: int) -> Tensor:
    """Bring indices into [0, side), mirrored at the outermost pixels' centres as often as needed."""
    period = max(1, 2 * (side - 1))
    places = places.remainder(period)
    return torch.minimum(places, period - places) if side > 1 else places
