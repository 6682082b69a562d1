"""CelebA: faces, each in its own file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.dataset import Side
from ganexp.data.decoding import ImageFiles
from ganexp.data.downloaded import Downloaded
from ganexp.ranges import checked


class CelebA(Downloaded):
    """162,770 faces of celebrities, aligned, 178×218 in colour (Liu et al. 2015): a central square of each, scaled.

    The square has a side of `crop` pixels: 178 is the full width, 148 shows less of the background. It is scaled to
    `image_size`, bilinearly with antialiasing. Torchvision downloads the set with the package gdown.
    """

    files = "celeba/img_align_celeba/*.jpg"
    channels = 3
    arguments: Mapping[str, Any] = {"split": "train"}

    @checked
    def __init__(self, root: str, *, crop: Annotated[int, Ge(1), Le(178)] = 178, image_size: Side = 64) -> None:
        self.crop = crop
        super().__init__(root, image_size=image_size)

    def fingerprint(self) -> list[object]:
        return [self.crop, *super().fingerprint()]

    def load(self) -> MapStyle[Tensor]:
        """Return a map-style dataset of `(3, image_size, image_size)`, uint8, decoded as it is read."""
        return ImageFiles(self._read(self._paths), self.shape, crop=self.crop)

    @property
    def _folder(self) -> Path:
        return self.root / "celeba"

    def _paths(self, source: Any) -> list[Path]:
        return [self.root / Path(self.files).parent / name for name in source.filename]
