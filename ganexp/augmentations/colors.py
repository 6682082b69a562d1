"""Colours, in the space that the grey axis and the plane across it span."""

from math import sqrt

from torch import Tensor


def recolored(images: Tensor, brightness: Tensor, contrast: Tensor, luma: Tensor, hue: Tensor, saturation: Tensor) -> Tensor:
    """Change brightness, contrast, luma, hue and saturation, in this order.

    Luma is the part of a pixel along the grey axis, its mean over the channels; chroma is the rest, rotated around that axis:
    Karras et al. 2020, appendix B, where it is a product of matrices. Written as differences, so that identities are exact.

    Args:
        images: `(B, 1, H, W)` or `(B, 3, H, W)`; of one channel there is no chroma.
        brightness: `(B, 1, 1, 1)`, like all that follow.
        contrast: A factor.
        luma: A factor, 1 or -1.
        hue: An angle in radians.
        saturation: A factor.
    """
    grey = images.mean(1, keepdim=True)
    chroma = images - grey
    across = (chroma.roll(1, 1) - chroma.roll(-1, 1)) / sqrt(3)  # the axis' vector product with it
    rotated = hue.cos() * chroma + hue.sin() * across
    return images + (luma * contrast * (grey + brightness) - grey) + (saturation * contrast * rotated - chroma)
