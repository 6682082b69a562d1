"""Translates image files: each is given to a translator as a source, in its own size, and what it makes is written."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import pad

from ganexp.batch import Batch
from ganexp.data.decoding import DecodingError, fitted, upright
from ganexp.data.feed import to_range
from ganexp.data.folder import EXTENSIONS, Archive, Folder
from ganexp.documents import atomic_write
from ganexp.facts import UserError
from ganexp.printable import one_line, printable
from ganexp.sampling.files import pixels
from ganexp.sampling.trained import Trained


class Pictures:
    """The images of a folder or zip archive, at any depth, as sources: read as those of `ImageFolder`, in their own size.

    Args:
        path: The folder or archive.
        channels: Of a source: 3 for colour, 1 for grey.
        size: Height and width that images are scaled to cover, and cut to in the middle; None leaves them as they are.

    Raises:
        UserError: There are no images, or two would be written to one file.
    """

    def __init__(self, path: Path, channels: int, size: tuple[int, int] | None = None) -> None:
        try:
            self._place = Folder(path) if path.is_dir() else Archive(path)
        except ValueError as error:
            raise UserError(str(error).removeprefix("path should be ").join(("FOLDER should be ", ""))) from error
        self._channels, self._size = channels, size
        self.files: dict[Path, Path] = {}
        """Each image, by the name of what is made of it: a path below the folder, which ends in .png."""
        self.left_out: list[str] = []
        """A sentence for each image that could not be decoded so far."""
        for file in sorted(file for file, what in self._place.walk() if not isinstance(what, str)):
            name = file.relative_to(path).with_suffix(".png")
            if name in self.files:
                raise UserError(
                    f"{printable(self.files[name])} and {printable(file)} would both become {name}: rename one of them"
                )
            self.files[name] = file
        if not self.files:
            raise UserError(f"{printable(path)} holds none of {', '.join(EXTENSIONS)}: name a folder of images")

    def __iter__(self) -> Iterator[tuple[Path, Tensor]]:
        """Yield the name of each and its pixels, `(C, H, W)`, uint8; images that cannot be decoded are left out, and noted."""
        for name, file in self.files.items():
            try:
                with upright(file, self._place.read) as image:
                    made = fitted(image, (self._channels, *(self._size or (image.height, image.width))))
            except DecodingError as error:
                self.left_out.append(str(error))
                continue
            yield name, made


def translate(
    trained: Trained,
    pictures: Pictures,
    folder: Path,
    *,
    label: int | str | None = None,
    batch_size: int = 16,
    advance: Callable[[int], object] = bool,
) -> int:
    """Write what a translator makes of each picture to a folder, under its name, and return how many were padded.

    A source whose sides the network does not take is continued at the right and below by its last column and row, and what
    belongs to them is cut off again. Pictures of one size that follow each other are a batch.

    Args:
        trained: A translator of one direction.
        pictures: The sources.
        folder: Where to write; existing files are replaced.
        label: The class of all, for a conditional translator, by its number or its name.
        batch_size: How many are translated at a time, at most.
        advance: Called with how many more are done, for a progress bar.

    Raises:
        UserError: The network does not take a picture of this size, or does not return images.
        OSError: A picture cannot be read, or a file not be written.
    """
    padded = 0
    for _, alike in itertools.groupby(pictures, lambda one: one[1].shape):
        while some := [*itertools.islice(alike, batch_size)]:
            names, sources = zip(*some, strict=True)
            source = to_range(torch.stack(sources).to(trained.device), trained.dtype)
            fitting = _padded(source, trained)
            padded += len(names) * (fitting.shape != source.shape)
            _write(_made(trained, fitting, source.shape, names, label), names, folder)
            advance(len(names))
    return padded


def _padded(source: Tensor, trained: Trained) -> Tensor:
    height, width = (
        max(trained.smallest_side, -(-side // trained.sides_divisible_by) * trained.sides_divisible_by)
        for side in source.shape[2:]
    )
    return pad(source, (0, width - source.shape[3], 0, height - source.shape[2]), mode="replicate")


def _made(trained: Trained, source: Tensor, shape: Sequence[int], names: Sequence[Path], label: int | str | None) -> Tensor:
    """Translate a padded batch, and cut off what was made of the padding; `shape` is that of the batch without it."""
    try:
        made = trained.generate(Batch(source, trained.labels(range(len(source)), label)))
    except RuntimeError as error:
        size = f"{shape[2]}×{shape[3]}"
        said = f"{names[0]} has {size} pixels, which the network does not take ({one_line(error)})"
        raise UserError(f"{said}: say --size {' '.join(map(str, trained.source_shape[1:]))}") from error
    if made.dim() != 4 or made.shape[1] not in (1, 3):
        raise UserError(
            f"the translator makes samples of shape {tuple(made.shape[1:])}, which are no images of 1 or 3 channels"
        )
    height, width = (
        own * after // before for own, after, before in zip(shape[2:], made.shape[2:], source.shape[2:], strict=True)
    )
    return made[..., :height, :width]


def _write(made: Tensor, names: Sequence[Path], folder: Path) -> None:
    for name, image in zip(names, pixels(made), strict=True):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            Image.fromarray(image if image.shape[2] == 3 else image[..., 0]).save(file, "PNG")
