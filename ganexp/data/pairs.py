"""Pairs of images from files: a source and its target."""

import copy
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.batch import Batch
from ganexp.data.arrangement import top_of
from ganexp.data.corrupt import first_of, report_skipped
from ganexp.data.dataset import Dataset, Range, Size, sides
from ganexp.data.decoding import UnlikeError, fitted, middle_of, upright
from ganexp.data.derived import Derived, HoldOut
from ganexp.data.headers import is_double
from ganexp.data.image_folder import ImageFolder
from ganexp.data.levels import ordered
from ganexp.printable import printable
from ganexp.ranges import checked

log = logging.getLogger(__name__)


class Pairs(Derived):
    """Images, each with a source from a file: two folders with equal names, or pictures that hold both as their halves.

    In folders, a source and its sample have the same path below the first folder that has more than one entry, apart from the
    extension. Both are read and turned as in `ImageFolder`, which also says what is held out. A sample is resized and cropped
    as there, and of its source the same part is taken, whatever the resolution of each; so their proportions must be equal.
    Where images are mirrored, a pair is mirrored together.

    A picture is taken to hold two halves. A warning counts pictures whose proportions are not those of two images of
    `image_size` side by side.

    Args:
        path: A folder or zip archive of pictures that hold both halves, side by side; or `sources` and `targets`.
        half: Which half of a picture is the source.
        sources, targets: Folders or zip archives of sources and of their targets.
        image_size: Side of the square samples; or height and width.
        source_size: That of the sources, if they are smaller: a half, a third, … of it.
        channels, source_channels: Of samples and of sources: 3 for colour, 1 for grey.
        range: Black and white in images of more than eight bits, as in `ImageFolder`: of targets, or of pictures of two halves.
        source_range: That of sources in a folder of their own.
        hold_out: As in `Derived`.
        strict: Whether an image without a partner, and a pair that cannot be decoded or is smaller than asked for, is refused;
            otherwise the first two are skipped and named.
    """

    @checked
    def __init__(
        self,
        *,
        path: str | None = None,
        half: Literal["left", "right"] = "left",
        sources: str | None = None,
        targets: str | None = None,
        image_size: Size = 64,
        source_size: Size | None = None,
        channels: Literal[1, 3] = 3,
        source_channels: Literal[1, 3] = 3,
        range: Range | None = None,
        source_range: Range | None = None,
        hold_out: HoldOut = 0,
        strict: bool = False,
    ) -> None:
        size = sides(image_size)
        small = sides(image_size if source_size is None else source_size)
        self.enlargement = size[0] // small[0]
        if size != (self.enlargement * small[0], self.enlargement * small[1]):
            raise ValueError(f"source_size should be a half, a third, … of image_size, {image_size}, not {source_size}")
        if path is not None and sources is None and targets is None:
            if source_range:
                raise ValueError("source_range should be left out where one picture holds both halves, of which range is")
            folders = [ImageFolder(path, image_size=(size[0], 2 * size[1]), range=range, strict=strict)]
            folders[0].double = True
        elif path is None and sources is not None and targets is not None:
            folders = [
                folder_at("sources", sources, small, strict, range=ordered(source_range, "source_range")),
                folder_at("targets", targets, size, strict, range=ordered(range)),
            ]
        else:
            raise ValueError("either path should be given, to pictures that hold both halves, or both sources and targets")
        source_shape = (source_channels, *small)
        super().__init__(_Stacks(folders, source_shape, (channels, *size), swapped=half == "right"), hold_out)
        self.shape, self.source_shape = (channels, *size), source_shape

    def derive(self, batch: Batch) -> Batch:
        source, x = batch.values.split([self.source_shape[0], self.shape[0]], 1)
        step = self.enlargement
        return replace(batch, values=x.contiguous(), source=source[..., ::step, ::step].contiguous())


class _Stacks(Dataset):
    """Sources, enlarged to the size of samples pixel by pixel, and samples, as stacks of channels: one array for the cache."""

    def __init__(
        self, folders: Sequence[ImageFolder], source_shape: tuple[int, ...], sample_shape: tuple[int, ...], *, swapped: bool
    ) -> None:
        self.folders, self.shapes, self.swapped = folders, (source_shape, sample_shape), swapped
        self.shape = (source_shape[0] + sample_shape[0], *sample_shape[1:])
        self.strict = folders[0].strict

    @property
    def value_range(self) -> Range | None:  # type: ignore[override]  # found when it is first needed
        return self.folders[-1].value_range

    @property
    def source_ranges(self) -> tuple[Range | None, ...]:
        return (self.folders[0].value_range,)

    def load(self) -> MapStyle[Tensor]:
        return _Pictures(
            list(self._files.values()),
            self.shapes,
            [functools.partial(upright, read=folder.place.read, value_range=folder.value_range) for folder in self.folders],
            swapped=self.swapped,
        )

    def fingerprint(self) -> Any:
        return ["one part", *(folder.fingerprint() for folder in self.folders), self.shapes, self.swapped, [*self._files]]

    def digest(self) -> str:
        return "-".join([*(folder.digest() for folder in self.folders), str(len(self._files))])

    def held_out(self) -> "_Stacks | None":
        folders = [held_out for folder in self.folders if (held_out := folder.held_out())]
        if len(folders) < len(self.folders):
            return None
        others = copy.copy(self)
        vars(others).pop("_files", None)
        others.folders = folders
        return others

    def skip(self, corrupt: dict[int, str]) -> None:
        report_skipped(self.folders[-1].where, corrupt, len(self._files))
        self._files = {name: files for i, (name, files) in enumerate(self._files.items()) if i not in corrupt}

    @functools.cached_property
    def _files(self) -> dict[str, tuple[Path, ...]]:
        """The picture of each pair, or its two images, by their common name."""
        for folder in self.folders:
            folder.report()
        if len(self.folders) == 1:
            self._report_single(self.folders[0])
            return {str(path): (path,) for path in self.folders[0].images}
        sources, targets = (_by_name(images) for images in self.folders)
        lone = [
            images[name]
            for images, others in ((sources, targets), (targets, sources))
            for name in sorted(images.keys() - others.keys())
        ]
        if lone:
            self._report_lone(lone, len(sources.keys() & targets.keys()))
        return {name: (source, targets[name]) for name, source in sources.items() if name in targets}

    def _report_lone(self, lone: Sequence[Path], pairs: int) -> None:
        """Warn of images without a partner, or refuse them where the set is strict, or where no image has one."""
        have = "1 image has" if len(lone) == 1 else f"{len(lone):,} images have"
        names = first_of([printable(path) for path in lone])
        sentence = f"{have} no partner of the same name in the other folder, beside {pairs:,} pairs: {names}"
        if self.strict or not pairs:
            remedy = ", or choose dataset.strict=false" if pairs else ""
            raise OSError(f"{sentence}; call the images of a pair by one name, and remove those without a partner{remedy}")
        log.warning("%s; left out.", sentence)

    def _report_single(self, folder: ImageFolder) -> None:
        """Warn of pictures whose proportions are not those of two images side by side."""
        _, height, width = self.shapes[1]
        others = [path for path, header in folder.headers.items() if not is_double(header, (height, width))]
        if others:
            name, (own_width, own_height) = printable(folder.name_of(others[0])), folder.headers[others[0]].size
            log.warning(
                "%s: %d of %d pictures looked at have other proportions than two images of %d×%d side by side, %s among them: "
                "each is cut in the middle, and its halves are cropped. Name dataset.sources and dataset.targets if they are "
                "single images, or bring dataset.image_size to the proportions of a half.",
                *(folder.where, len(others), len(folder.headers), width, height, f"{name} ({own_width}×{own_height})"),
            )


class _Pictures(MapStyle[Tensor]):
    """Stacks of channels, each decoded when it is read."""

    def __init__(
        self,
        files: Sequence[tuple[Path, ...]],
        shapes: tuple[tuple[int, ...], ...],
        opened: Sequence[Callable[[Path], AbstractContextManager[Image.Image]]],
        *,
        swapped: bool,
    ) -> None:
        self.files, self.shapes, self.opened, self.swapped = files, shapes, opened, swapped

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        files = self.files[index]
        source, sample = self._halves(files[0]) if len(files) == 1 else self._both(files)
        step = sample.shape[1] // source.shape[1]
        return torch.cat([source.repeat_interleave(step, 1).repeat_interleave(step, 2), sample])

    def _halves(self, path: Path) -> Iterator[Tensor]:
        with self.opened[0](path) as image:
            middle = image.width // 2
            halves = [image.crop((left, 0, left + middle, image.height)) for left in (0, middle)]
            part = middle_of(halves[0].size, *self.shapes[1][1:])
            for half, shape in zip(halves[::-1] if self.swapped else halves, self.shapes, strict=True):
                yield fitted(half, shape, part)

    def _both(self, files: tuple[Path, ...]) -> Iterator[Tensor]:
        (open_source, open_sample), (source_shape, shape) = self.opened, self.shapes
        with open_sample(files[1]) as image:
            width, height = image.size
            part = middle_of(image.size, *shape[1:])
            sample = fitted(image, shape, part)
        with open_source(files[0]) as image:
            own_width, own_height = image.size
            yield fitted(image, source_shape, part)
        yield sample
        if abs(own_width * height - width * own_height) > max(own_width, own_height, width, height):
            difference = f"{printable(files[0])} has {own_width}×{own_height} pixels, and its target {width}×{height}"
            raise UnlikeError(f"{difference}: cut both to the same part of the picture")


def folder_at(argument: str, path: str, image_size: Size, strict: bool, **settings: Any) -> ImageFolder:
    """Return the images in the folder that an argument names; its name begins an error message."""
    try:
        return ImageFolder(path, image_size=image_size, strict=strict, **settings)
    except ValueError as error:
        raise ValueError(f"{argument}{str(error).removeprefix('path')}") from None


def _by_name(folder: ImageFolder) -> dict[str, Path]:
    """Return the images of a folder by their paths in it, without extensions."""
    top = top_of(folder.images)
    named: dict[str, Path] = {}
    for path in folder.images:
        name = path.relative_to(top).with_suffix("").as_posix()
        if name in named:
            raise OSError(f"{printable(named[name])} and {printable(path)} have one name: remove one of them, or rename it")
        named[name] = path
    return named
