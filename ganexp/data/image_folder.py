"""Any folder or zip archive of images."""

import functools
import logging
import os
from collections import Counter
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.corrupt import report_skipped
from ganexp.data.dataset import Dataset, Size, Stamp, sides
from ganexp.data.decoding import ImageFiles
from ganexp.data.digest import of_files
from ganexp.data.folder import EXTENSIONS, Archive, Folder
from ganexp.data.headers import report_smaller, sample, smaller
from ganexp.printable import printable
from ganexp.ranges import checked

log = logging.getLogger(__name__)


class ImageFolder(Dataset):
    """Every image in a folder or zip archive, at any depth: shorter side scaled to `image_size`, then the central square.

    - Files count as images by their extensions: torchvision's, and `.gif`. Other files are skipped and counted in a warning.
      Folders behind symbolic links are read too, each real folder once.
    - Of an animation or a file of several pages, the first image is taken.
    - Images are turned as their EXIF orientation says.
    - Transparent pixels show a white background.
    - 16-bit images are scaled from [0, 65535]; floats from the smallest of [0, 1], [0, 255] and [0, 65535] that holds all
      values of the image. Pixels outside these ranges are refused.
    - Every image then becomes RGB, is scaled bilinearly with antialiasing, and, for one channel, becomes grey.

    If every image lies in a sub-folder of `path`, the sub-folders, sorted by name, are classes.

    The folder is listed once, when it is first needed. An archive holds the same images, in the same order, as the folder
    that it unpacks to.

    Args:
        path: The folder, or the archive.
        image_size: Side of the square images; or height and width, which images are scaled to cover.
        channels: 3 for colour, 1 for grey.
        strict: Whether an image that cannot be decoded, or is smaller than `image_size`, is refused. If not, those that cannot
            be decoded are named in a warning and left out when the set is decoded as a whole; where it is streamed, they may
            become known only when they are read, and the first of them then ends the run. Smaller images are enlarged, and
            counted in a warning, for which up to 1000 evenly spaced images are looked at.

    Raises:
        ValueError: The path is neither a folder nor a zip archive, or holds no images.
    """

    @checked
    def __init__(self, path: str, *, image_size: Size = 64, channels: Literal[1, 3] = 3, strict: bool = False) -> None:
        self.strict = strict
        self.shape = (channels, *sides(image_size))
        self.folder = Path(os.path.expanduser(path))
        if not self.folder.is_dir() and not self.folder.is_file():
            raise ValueError(f"path should be a folder of images or a zip archive, and {path} is neither")
        self.place = Folder(self.folder) if self.folder.is_dir() else Archive(self.folder)
        if all(isinstance(found, str) for _, found in self.place.walk()):
            raise ValueError(
                f"path should be a folder of images or a zip archive, and {path} holds none of {', '.join(EXTENSIONS)}"
            )

    def fingerprint(self) -> list[object]:
        """Return where the folder or archive is, and the name, size and times (in an archive, checksum) of every image."""
        return [*self.place.fingerprint(), *((name, *stamp) for name, stamp in self._named())]

    def digest(self) -> str:
        files = list(self._stamps)
        names = [(name, size) for name, (size, *_) in self._named()]
        return of_files(names, lambda place, length: self.place.head(files[place], length))

    def load(self) -> MapStyle[Tensor]:
        """Return a map-style dataset of `(C, H, W)`, uint8, decoded as it is read.

        Raises:
            OSError: An image is too small, and the set is `strict`; `fingerprint`, `digest` and `labels` raise it as well.
        """
        return ImageFiles(list(self._stamps), self.shape, read=self.place.read)

    def skip(self, corrupt: dict[int, str]) -> None:
        """Leave out images from now on; classes stay as they are, even if one has lost all of its images."""
        report_skipped(printable(self.folder), corrupt, len(self._stamps))
        self._classes  # noqa: B018 (counted while all are there)
        self._stamps = {path: stamp for index, (path, stamp) in enumerate(self._stamps.items()) if index not in corrupt}

    @property
    def classes(self) -> int:  # type: ignore[override]  # read when it is first needed
        """The number of classes; 0 if there are images outside of sub-folders."""
        return len(self._classes)

    def labels(self) -> Tensor:
        index = {name: label for label, name in enumerate(self._classes)}
        if not index:
            raise ValueError(
                f"path should have a sub-folder for each class, with all images in them, and {printable(self.folder)} has "
                "images outside of sub-folders"
            )
        return torch.tensor([index[name.partition(os.sep)[0]] for name, _ in self._named()])

    @functools.cached_property
    def _classes(self) -> list[str]:
        places = [path.relative_to(self.folder).parts for path in self._stamps]
        return sorted({first for first, *_ in places}) if all(len(parts) > 1 for parts in places) else []

    def _named(self) -> list[tuple[str, Stamp]]:
        return [(str(path.relative_to(self.folder)), stamp) for path, stamp in self._stamps.items()]

    @functools.cached_property
    def _stamps(self) -> dict[Path, Stamp]:
        """List the images in their order, and report what else lies among them."""
        found = list(self.place.walk())
        stamps = dict(sorted((path, what) for path, what in found if not isinstance(what, str)))
        skipped = Counter(what for _, what in found if isinstance(what, str))
        if skipped:
            kinds = ", ".join(f"{count} {kind}" for kind, count in skipped.most_common())
            log.warning("%s: %d images are read, %d skipped (%s).", printable(self.folder), len(stamps), skipped.total(), kinds)
        self._look_at(list(stamps))
        return stamps

    def _look_at(self, files: list[Path]) -> None:
        """Report images that would be enlarged."""
        looked_at = files if self.strict else sample(files)
        size = self.shape[1], self.shape[2]
        found = [(printable(path.relative_to(self.folder)), own) for path, own in smaller(looked_at, size, self.place.open)]
        report_smaller(printable(self.folder), found, len(looked_at), len(files), size, strict=self.strict)
