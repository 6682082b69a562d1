"""The structural similarity index."""

from typing import ClassVar

from torch import Tensor

from ganexp.data.feed import to_pixels
from ganexp.evaluation.base import high
from ganexp.evaluation.features import needed
from ganexp.evaluation.measures.pairs import PairMeasure


class SSIM(PairMeasure):
    """Structural similarity (Wang et al. 2004, eq. 13) under Gaussian windows of 11×11 pixels, as torchmetrics computes it.

    σ is 1.5, K₁ 0.01, K₂ 0.03; the mean over pixels, over channels, and over images. Departure: images are reflected at their
    borders, where the authors leave out windows that do not lie in the image.
    """

    keys: ClassVar = {"eval/ssim": high("structural similarity of samples and their targets, at most 1")}
    library = "torchmetrics"
    least_side = 6  # 5 pixels are reflected

    def figures(self, samples: Tensor, targets: Tensor) -> Tensor:
        similarity = needed("torchmetrics.functional.image").structural_similarity_index_measure
        x, y = (to_pixels(images).double() / 255 for images in (samples, targets))
        return similarity(x, y, data_range=1.0, reduction="none").reshape(-1)
