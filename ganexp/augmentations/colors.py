"""Changes of colour, in terms of luma (along the grey axis) and chroma (perpendicular to it)."""

from math import sqrt

from torch import Tensor


def recolored(images: Tensor, brightness: Tensor, contrast: Tensor, luma: Tensor, hue: Tensor, saturation: Tensor) -> Tensor:
    """Change brightness, contrast, luma, hue and saturation, in this order.

    Luma is the part of a pixel along the grey axis, its mean over the channels; chroma is the rest, which hue rotates around
    that axis. Karras et al. 2020, appendix B, write it as a product of matrices; differences keep identities exact.

    Args:
        images: `(B, 1, H, W)` or `(B, 3, H, W)`; one channel has no chroma.
        brightness: `(B, 1, 1, 1)`, like all that follow.
        contrast: A factor.
        luma: A factor, 1 or -1.
        hue: An angle in radians.
        saturation: A factor.
    """
    grey = images.mean(1, keepdim=True)
    chroma = images - grey
    across = (chroma.roll(1, 1) - chroma.roll(-1, 1)) / sqrt(3)  # the cross product of the axis and the chroma
    rotated = hue.cos() * chroma + hue.sin() * across
    return images + (luma * contrast * (grey + brightness) - grey) + (saturation * contrast * rotated - chroma)
