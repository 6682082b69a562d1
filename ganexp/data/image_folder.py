"""Any folder or zip archive of images."""

import copy
import functools
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.arrangement import DOCUMENT, TEST, TRAIN, VALIDATION, classes_by_document, classes_by_folder, splits_of, top_of
from ganexp.data.corrupt import report_skipped
from ganexp.data.dataset import Range, Size, Stamp
from ganexp.data.decoding import ImageFiles
from ganexp.data.digest import of_files
from ganexp.data.encoded import EncodedImages
from ganexp.data.folder import LARGEST, Listing, counted, images_at, listed
from ganexp.printable import printable
from ganexp.ranges import checked

log = logging.getLogger(__name__)


class ImageFolder(EncodedImages):
    """Every image in a folder or zip archive, at any depth: shorter side scaled to `image_size`, then the central square.

    - Files count as images by their extensions: torchvision's, and `.gif`. Other files are skipped and counted in a warning,
      as are hidden and system files and folders (`.thumbnails`, `._1.jpg`, `@eaDir`, `__MACOSX`, `lost+found`). Folders
      behind symbolic links are read too, each real folder once.
    - Of an animation or a file of several pages, the first image is taken.
    - Images are turned as their EXIF orientation says.
    - Transparent pixels show a white background.
    - Of 16-bit images and floats, `range` says what is black and white. By default it is the smallest that holds all values of
      the set, from 0 to 1, 255, 1023, 4095, 16383 or 65535, and the log says which. Images that exceed it cannot be decoded.
      Images of eight bits stay as they are.
    - Every image then becomes RGB, is scaled bilinearly with antialiasing, and, for one channel, becomes grey.

    If there are folders `train` and `test` or `val`, alone in `path` or in a single folder there, the first is trained on, and
    `test` or else `val` counts as held out. Classes are those of a `dataset.json` as StyleGAN's tools write it, in `path` or
    nearer to the images; without one, they are the sub-folders, sorted by name, if every image lies in one: those of `path`, of
    `train`, or of the first folder that has more than one entry.

    The folder is listed once, when it is first needed. An archive holds the same images, in the same order, as the folder
    that it unpacks to.

    Args:
        path: The folder, or the archive.
        image_size: Side of the square images; or height and width, which images are scaled to cover.
        channels: 3 for colour, 1 for grey.
        range: Black and white in images of more than eight bits.
        strict: Whether an image that cannot be decoded, or is smaller than `image_size`, is refused. If not, those that cannot
            be decoded are named in a warning and left out when the set is decoded as a whole; where it is streamed, they may
            become known only when they are read, and the first of them then ends the run. Smaller images are enlarged, and
            counted in a warning, for which up to 1000 evenly spaced images are looked at.
    """

    _split = TRAIN
    _files_reported = False

    @checked
    def __init__(
        self,
        path: str,
        *,
        image_size: Size = 64,
        channels: Literal[1, 3] = 3,
        range: Range | None = None,
        strict: bool = False,
    ) -> None:
        self.folder = Path(os.path.expanduser(path))
        super().__init__(str(self.folder), image_size, channels, range, strict=strict)
        self.place = images_at(self.folder)

    @property
    def images(self) -> Sequence[Path]:
        return list(self._stamps)

    def open(self, image: Path) -> IO[bytes]:
        return self.place.open(image)

    def name_of(self, image: Path) -> str:
        return str(image.relative_to(self.folder))

    def fingerprint(self) -> list[object]:
        """Return the path of the folder or archive, and the name, size and times (in an archive, checksum) of every image."""
        self.report()
        levels = [self.value_range] if self.value_range else []
        return [*self.place.fingerprint(), *levels, *((name, *stamp) for name, stamp in self._named())]

    def digest(self) -> str:
        self.report()
        files = [*self._stamps, *filter(None, [self._document])]
        names = [(name, size) for name, (size, *_) in self._named()]
        if self._document:
            names.append((DOCUMENT, len(self.place.head(self._document, LARGEST))))
        return of_files(names, lambda place, length: self.place.head(files[place], length))

    def load(self) -> MapStyle[Tensor]:
        """Return a map-style dataset of `(C, H, W)`, uint8, decoded as it is read."""
        self.report()
        return ImageFiles(self.images, self.shape, value_range=self.value_range, read=self.place.read)

    def skip(self, corrupt: dict[int, str]) -> None:
        """Leave out images from now on; classes stay as they are, even if one has lost all of its images."""
        report_skipped(self.where, corrupt, len(self._stamps))
        self.class_names  # noqa: B018 (found while all are there)
        self._stamps = {path: stamp for index, (path, stamp) in enumerate(self._stamps.items()) if index not in corrupt}

    def held_out(self) -> "ImageFolder | None":
        split = next((name for name in (TEST, VALIDATION) if name in self._splits and self._split == TRAIN), None)
        if split is None:
            return None
        self.class_names, self._within  # noqa: B018 (they count for the images held out as well)
        others = copy.copy(self)
        for name in ("_stamps", "_document", "_class_of", "headers", "value_range"):
            vars(others).pop(name, None)
        others._split, others._sizes_reported, others.like = split, False, self
        return others

    @property
    def classes(self) -> int:  # type: ignore[override]  # read when it is first needed
        """The number of classes; 0 if there are images outside of sub-folders, and no `dataset.json` names their classes."""
        return len(self.class_names)

    @functools.cached_property
    def class_names(self) -> list[str]:  # type: ignore[override]  # read when it is first needed
        """The sub-folders that are classes, or the classes in `dataset.json`."""
        return [str(name) for name in sorted(set(self._class_of.values()))]

    def labels(self) -> Tensor:
        if not self._class_of:
            raise ValueError(
                f"path should have two or more sub-folders, one for each class, with all images in them, or a {DOCUMENT} with "
                f"labels, and {printable(self.folder if len(self._splits) == 1 else self._splits[self._split])} has neither"
            )
        index = {name: label for label, name in enumerate(self.class_names)}
        named = [str(self._class_of[path]) for path in self._stamps]
        strange = next((name for name in named if name not in index), None)
        if strange is not None:
            raise ValueError(f"{printable(self._splits[self._split])} has the class {printable(strange)}, and train has not")
        return torch.tensor([index[name] for name in named])

    @functools.cached_property
    def _class_of(self) -> dict[Path, Any]:
        """The class of each image, an integer or a text; empty without classes."""
        files, classes = list(self._stamps), None
        if self._document:
            classes = classes_by_document(self.place.head(self._document, LARGEST), files, self._document.parent)
        if classes is None:
            classes = classes_by_folder(files, self._splits[self._split] / self._within)
        return dict(zip(files, classes, strict=True)) if classes else {}

    @functools.cached_property
    def _within(self) -> Path:
        """The folder of the classes, relative to the training split; the other splits have the same layout."""
        return top_of(self._stamps).relative_to(self._splits[TRAIN])

    @functools.cached_property
    def _document(self) -> Path | None:
        """The `dataset.json` nearest to the images, if there is one."""
        place = self._splits[self._split]
        above = (folder / DOCUMENT for folder in (place, *place.parents) if folder.is_relative_to(self.folder))
        others = {path for path, _ in self._listed.skipped}
        return next((path for path in above if path in others), None)

    def _named(self) -> list[tuple[str, Stamp]]:
        return [(self.name_of(path), stamp) for path, stamp in self._stamps.items()]

    @functools.cached_property
    def _listed(self) -> Listing:
        return listed(self.place)

    @functools.cached_property
    def _splits(self) -> dict[str, Path]:
        return splits_of(self._listed.images)

    @functools.cached_property
    def _stamps(self) -> dict[Path, Stamp]:
        """The images of the split, in their order."""
        place, alone = self._splits[self._split], len(self._splits) == 1
        return {path: stamp for path, stamp in self._listed.images.items() if alone or path.is_relative_to(place)}

    def report(self) -> None:
        """Report, once, which folders are left out and which files are no images; then what `report_sizes` does."""
        if self._split == TRAIN and not self._files_reported:
            self._files_reported = True
            further = ", ".join(printable(folder.name) for split, folder in self._splits.items() if split != TRAIN)
            if further:
                log.info("%s: the images in %s are taken, without those in %s.", self.where, self._splits[TRAIN].name, further)
            skipped = [kind for path, kind in self._listed.skipped if path != self._document]
            if skipped:
                read = len(self._stamps)
                log.warning("%s: %d images are read, %d skipped (%s).", self.where, read, len(skipped), counted(skipped))
        self.report_sizes()
