"""Translates image files, each in its own size, and writes the results."""

import errno
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import pad

from ganexp.batch import Batch
from ganexp.data.feed import to_range
from ganexp.data.unscaled import Pictures
from ganexp.documents import atomic_write, remove_unfinished
from ganexp.facts import UserError
from ganexp.printable import one_line, printable
from ganexp.sampling.files import pixels
from ganexp.sampling.trained import Trained

OF_THE_NAME = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EISDIR, errno.ENOTDIR, errno.EEXIST)
"""Errors of writing a file that are due to its name, and not to the disk."""


def refuse_place(pictures: Pictures, folder: Path) -> None:
    """Refuse a folder for results that holds sources or links that results would follow, and results named like a folder."""
    own, parents = Path(os.path.realpath(folder)), {parent for name in pictures.files for parent in name.parents}
    for name, file in pictures.files.items():
        if Path(os.path.realpath(file)).is_relative_to(own):
            raise UserError(f"{printable(file)} lies in --output {folder}: name a folder outside of the images")
        if name in parents:
            raise UserError(f"{printable(file)} would become {name}, which is a folder of others: rename one of them")
    for parent in parents - {Path()}:
        if os.path.islink(folder / parent):  # no error, as of Path.is_symlink, for a name that is too long
            raise UserError(
                f"{folder / parent} is a link, and leads elsewhere: remove it, or name another folder with --output"
            )


def translate(
    trained: Trained,
    pictures: Pictures,
    folder: Path,
    *,
    label: int | str | None = None,
    batch_size: int = 16,
    advance: Callable[[int], object] = bool,
) -> tuple[int, int]:
    """Translate pictures, and write each result to a folder under the name of its source.

    A source whose sides do not fit the network is padded at the right and below with its last column and row, and the padding
    is cut off again. Consecutive pictures of one size form a batch.

    Args:
        trained: A translator of one direction.
        pictures: The sources.
        folder: The folder of the results; existing files are replaced, and half-written ones of a killed process removed.
        label: The class of all, for a conditional translator, by its number or its name.
        batch_size: The maximum number of pictures in a batch.
        advance: Called with the number of further pictures after each batch, for a progress bar.

    Returns:
        The numbers of results written and of sources padded. `pictures.lost` lists the other sources with the reason.
    """
    refuse_place(pictures, folder)
    remove_unfinished(folder)
    written = padded = 0
    for _, alike in itertools.groupby(pictures, lambda picture: picture[1].shape):
        while batch := [*itertools.islice(alike, batch_size)]:
            names, sources = zip(*batch, strict=True)
            source = to_range(torch.stack(sources).to(trained.device), trained.dtype)
            fitting = _padded(source, trained)
            padded += len(names) * (fitting.shape != source.shape)
            results = _translate(trained, fitting, source.shape, names, label)
            for name, image in zip(names, pixels(results), strict=True):
                try:
                    _write(image, folder / name)
                    written += 1
                except OSError as error:
                    if error.errno not in OF_THE_NAME:
                        raise
                    pictures.lost.append(f"{printable(folder / name)} cannot be written ({error.strerror})")
            advance(len(names))
    return written, padded


def _padded(source: Tensor, trained: Trained) -> Tensor:
    height, width = (
        max(trained.smallest_side, -(-side // trained.sides_divisible_by) * trained.sides_divisible_by)
        for side in source.shape[2:]
    )
    return pad(source, (0, width - source.shape[3], 0, height - source.shape[2]), mode="replicate")


def _translate(
    trained: Trained, source: Tensor, shape: Sequence[int], names: Sequence[Path], label: int | str | None
) -> Tensor:
    """Translate a padded batch, and cut the padding off again; `shape` is the shape of the batch without padding."""
    try:
        results = trained.generate(Batch(source, trained.labels(range(len(source)), label)))
    except RuntimeError as error:
        if "memory" in str(error):  # of the machine, or of its GPU
            sentence = f"there is not enough memory for {names[0]} and others like it, {len(names)} at once ({one_line(error)})"
            raise UserError(f"{sentence}: lower --batch-size, or --size") from error
        size = f"{shape[2]}×{shape[3]}"
        sentence = f"{names[0]} has {size} pixels, which the network does not take ({one_line(error)})"
        raise UserError(f"{sentence}: say --size {' '.join(map(str, trained.source_shape[1:]))}") from error
    if results.dim() != 4 or results.shape[1] not in (1, 3):
        raise UserError(
            f"the translator makes samples of shape {tuple(results.shape[1:])}, which are no images of 1 or 3 channels"
        )
    height, width = (
        own * after // before for own, after, before in zip(shape[2:], results.shape[2:], source.shape[2:], strict=True)
    )
    return results[..., :height, :width]


def _write(image: np.ndarray, path: Path) -> None:
    with atomic_write(path) as file:
        Image.fromarray(image if image.shape[2] == 3 else image[..., 0]).save(file, "PNG")
