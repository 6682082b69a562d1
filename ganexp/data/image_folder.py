"""Any folder of images."""

from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset as MapStyle
from torchvision.datasets.folder import IMG_EXTENSIONS, pil_loader
from torchvision.transforms import v2 as transforms
from torchvision.transforms.v2 import functional

from ganexp.data.dataset import file_stamps, image_shape


class ImageFolder:
    """Every image below a folder, at any depth: shorter side scaled to `image_size`, then the central square.

    Args:
        path: The folder.
        image_size: Side of the square images.
        channels: 3 for colour, 1 for grey.

    Raises:
        ValueError: The path is not a folder, or has no image with an extension that torchvision knows.
    """

    def __init__(self, path: str, *, image_size: int = 64, channels: int = 3) -> None:
        if channels not in (1, 3):
            raise ValueError(f"channels must be 1 or 3, not {channels}")
        self.shape = image_shape(channels, image_size)
        folder = Path(path).expanduser()
        if not folder.is_dir():
            raise ValueError(f"path must be a folder of images, and {path} is none")
        self.folder = folder
        if not any(self._files()):
            raise ValueError(f"path must be a folder of images, and {path} holds none of {', '.join(IMG_EXTENSIONS)}")

    def fingerprint(self) -> list[tuple[str, int, int]]:
        """Name, size and time of every image."""
        return file_stamps(self._files(), self.folder)

    def load(self) -> MapStyle[Tensor]:
        """Return a map-style dataset of `(C, image_size, image_size)`, uint8, decoded as it is read."""
        return _Images(sorted(self._files()), self.shape)

    def _files(self) -> Iterator[Path]:
        return (file for file in self.folder.rglob("*") if file.suffix.lower() in IMG_EXTENSIONS and file.is_file())


class _Images(MapStyle[Tensor]):
    def __init__(self, files: list[Path], shape: tuple[int, int, int]) -> None:
        self.files = files
        channels, size, _ = shape
        self.transform = transforms.Compose(
            [transforms.Resize(size), transforms.CenterCrop(size), transforms.Grayscale(channels)]
            if channels == 1
            else [transforms.Resize(size), transforms.CenterCrop(size)]
        )

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        try:
            image = pil_loader(str(self.files[index]))
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise OSError(f"{self.files[index]} cannot be decoded as an image ({error})") from error
        return functional.pil_to_tensor(self.transform(image))
