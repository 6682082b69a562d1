"""The peak signal-to-noise ratio."""

from typing import ClassVar

from torch import Tensor

from ganexp.data.feed import to_pixels
from ganexp.evaluation.base import high
from ganexp.evaluation.measures.pairs import PairMeasure


class PSNR(PairMeasure):
    """10 log₁₀(255² / mean squared difference of the 8-bit pixels), in dB, of all channels; the mean over images.

    An image without any difference counts as if one of its numbers differed by one level, since its ratio has no value.
    Publications of super-resolution often take the luma alone, and leave out a border.
    """

    keys: ClassVar = {"eval/psnr": high("peak signal-to-noise ratio of samples against their targets, in dB")}

    def figures(self, samples: Tensor, targets: Tensor) -> Tensor:
        difference = (to_pixels(samples).double() - to_pixels(targets)).flatten(1)
        return 10 * (255**2 * difference.shape[1] / difference.square().sum(1).clamp(min=1)).log10()
