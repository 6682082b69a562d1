"""Writes many samples to files, one batch at a time; interrupted writing continues where it stopped."""

import io
import itertools
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from safetensors.torch import save as to_bytes
from torch import Tensor

from ganexp.data.feed import to_pixels
from ganexp.distributed.processes import Processes
from ganexp.documents import atomic_write, refuse_taken, remove_unfinished, write_document
from ganexp.facts import UserError
from ganexp.logging.reading import read_document
from ganexp.sampling.trained import AT_ONCE, Trained, in_batches

SAMPLE_FILE = re.compile(r"\d{9,}\.png|samples-\d{6,}\.tar")
"""The names of the files that this module writes into folders."""
DOCUMENT = "samples.json"
"""The file that describes the samples beside it. A folder of other samples is not written to."""


class Series:
    """Samples of a generator by index, as pixels.

    Args:
        trained: The generator.
        seed, label, truncation: As in `Trained.sample`.
        batch_size: The number of samples in a batch.
        advance: Called with the number of further samples after each batch, for a progress bar.
        processes: The processes that share the batches; by default this one alone.
    """

    def __init__(
        self,
        trained: Trained,
        seed: int = 0,
        *,
        label: int | str | None = None,
        truncation: float | None = None,
        batch_size: int = AT_ONCE,
        advance: Callable[[int], object] = bool,
        processes: Processes | None = None,
    ) -> None:
        self.trained = trained
        self.processes = processes or Processes()
        self.batch_size = batch_size
        self._generator, bound = trained.under(truncation)
        number = trained.number_of(label)  # however it is given, it is the same class
        self._how: dict[str, Any] = {"label": number, "truncation": bound}
        self._description = {"label": number, "truncation": truncation}
        self._seed = seed
        self._advance = advance

    def described(self) -> dict[str, Any]:
        """Return the values that identify these samples."""
        return {"generator": self.trained.digest, "seed": self._seed, **self._description, **self._generator.how}

    def refuse(self, indices: Sequence[int]) -> None:
        """Generate the first and the last sample, so that errors are raised before a folder is claimed."""
        if ends := [*indices[:1], *indices[-1:]]:
            self._generate(ends)

    def batches(self, indices: Sequence[int], *, shared: bool = False) -> Iterator[tuple[Sequence[int], np.ndarray, list[int]]]:
        """Yield indices, their samples and their classes: images `(B, H, W, C)`, uint8, points `(B, 2)` as they are.

        If the batches are `shared`, each process yields its own alone: one of every `processes.count`.
        """
        first, step = (self.processes.rank, self.processes.count) if shared else (0, 1)
        for part in itertools.islice(in_batches(indices, self.batch_size), first, None, step):
            yield part, *self._generate(part)
            self._advance(len(part))

    def gathered(self, indices: Sequence[int]) -> Iterator[tuple[np.ndarray, list[int]]]:
        """Yield samples and their classes in the process that writes, batch by batch, whichever process generated them."""
        parts = [*in_batches(indices, self.batch_size)]
        for part, samples in zip(parts, self.processes.each(self._generate, parts), strict=self.processes.is_main):
            yield samples
            self._advance(len(part))

    def _generate(self, part: Sequence[int]) -> tuple[np.ndarray, list[int]]:
        z = self._generator.latents(part, self._seed, **self._how)
        samples = self._generator.pictures(self._generator.generate(z, self._seed))
        return pixels(samples), z.conditions[0].tolist() if z.conditions else []


def pixels(samples: Tensor) -> np.ndarray:
    """Return images `(B, C, H, W)` in [-1, 1] as `(B, H, W, C)`, uint8, and anything else unchanged."""
    if samples.dim() != 4:
        return samples.cpu().numpy()
    return to_pixels(samples).permute(0, 2, 3, 1).contiguous().cpu().numpy()


def write_pngs(series: Series, indices: Sequence[int], folder: Path, *, overwrite: bool = False) -> int:
    """Write `<index>.png` for each index that is not there yet, and return their number."""
    _refuse_non_pictures(series.trained)

    def missing() -> list[int]:
        series.refuse(indices)
        _claim(folder, series.described() | {"format": "png"}, overwrite)
        return [index for index in indices if overwrite or not _png(folder, index).exists()]

    left = series.processes.first(missing)
    for part, images, _ in series.batches(left, shared=True):
        for index, image in zip(part, images, strict=True):
            with atomic_write(_png(folder, index), durable=False) as file:
                file.write(_encoded(image))
    return len(left)


def write_shards(series: Series, indices: range, folder: Path, *, shard_size: int = 10_000, overwrite: bool = False) -> int:
    """Write `samples-<number>.tar` shards as WebDataset reads them: `<index>.png`, and its class as `<index>.cls`.

    A shard is written whole or not at all, and existing ones are kept. Returns the number of written shards.
    """
    if shard_size < 1:
        raise UserError(f"a shard should have 1 or more samples, not {shard_size}")
    _refuse_non_pictures(series.trained)
    limits = {"first": indices.start, "n": len(indices), "shard_size": shard_size}

    def missing() -> list[int]:
        series.refuse(indices)
        _claim(folder, series.described() | {"format": "tar"} | limits, overwrite)
        numbers = range(-(-len(indices) // shard_size))
        return [number for number in numbers if overwrite or not _shard(folder, number).exists()]

    left = series.processes.first(missing)
    for number in left[series.processes.rank :: series.processes.count]:
        start, path = number * shard_size, _shard(folder, number)
        with atomic_write(path) as file, tarfile.open(fileobj=file, mode="w") as shard:
            for part, images, labels in series.batches(indices[start : start + shard_size]):
                for place, (index, image) in enumerate(zip(part, images, strict=True)):
                    _add(shard, f"{index:09d}.png", _encoded(image))
                    if labels:
                        _add(shard, f"{index:09d}.cls", str(labels[place]).encode())
    return len(left)


def write_npz(series: Series, indices: Sequence[int], path: Path, *, overwrite: bool = False) -> None:
    """Write one `.npz` file: `arr_0` `(N, H, W, C)`, uint8, or points as floats; and `arr_1`, their classes, if any."""
    series.processes.first(lambda: _refuse_taken(path, overwrite))
    if not series.processes.is_main:
        for _ in series.gathered(indices):  # yields nothing here, but this process does its share
            pass
        return
    classes: list[int] = []
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        with archive.open("arr_0.npy", "w", force_zip64=True) as array:
            for batch, (samples, labels) in enumerate(series.gathered(indices)):
                if not batch:
                    header = {"descr": samples.dtype.str, "fortran_order": False, "shape": (len(indices), *samples.shape[1:])}
                    np.lib.format.write_array_header_1_0(array, header)
                array.write(samples.tobytes())
                classes += labels
        if classes:
            with archive.open("arr_1.npy", "w") as array:
                np.lib.format.write_array(array, np.array(classes))


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write tensors to a `.safetensors` file, whole or not at all."""
    with atomic_write(path) as file:
        file.write(to_bytes(tensors))


def _refuse_taken(path: Path, overwrite: bool) -> None:
    try:
        refuse_taken(path, overwrite)
    except FileExistsError as error:
        raise UserError(str(error)) from None


def _claim(folder: Path, described: dict[str, Any], overwrite: bool) -> None:
    """Claim a folder for these samples, and refuse one that holds other samples or something else."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: name a folder with --output")
    present = read_document(folder / DOCUMENT)
    if not overwrite and present != json.loads(json.dumps(described)) and folder.exists() and any(folder.iterdir()):
        differing = [key for key, value in described.items() if present.get(key) != value]
        others = "other samples" + f" (not the same {', '.join(key.replace('_', ' ') for key in differing)})" * bool(differing)
        content = others if present else "something else"
        raise UserError(f"{folder} holds {content}: add --overwrite to write there, or name another place with --output")
    folder.mkdir(parents=True, exist_ok=True)
    remove_unfinished(folder)
    if overwrite:  # old samples, of which there may be more, are not samples of this series
        for path in folder.iterdir():
            if SAMPLE_FILE.fullmatch(path.name):
                path.unlink()
    write_document(folder / DOCUMENT, described)


def _refuse_non_pictures(trained: Trained) -> None:
    if len(trained.picture_shape) != 3 or trained.picture_shape[0] not in (1, 3):
        what = "×".join(map(str, trained.picture_shape))
        raise UserError(f"samples of shape {what} are no pictures, which have 1 or 3 channels: write them with --format npz")


def _png(folder: Path, index: int) -> Path:
    return folder / f"{index:09d}.png"


def _shard(folder: Path, number: int) -> Path:
    return folder / f"samples-{number:06d}.tar"


def _encoded(image: np.ndarray) -> bytes:
    """Return an image `(H, W, C)` as a PNG file."""
    file = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(file, "PNG")
    return file.getvalue()


def _add(shard: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)  # without a time or an owner, so that equal samples give equal files
    entry.size = len(content)
    shard.addfile(entry, io.BytesIO(content))
