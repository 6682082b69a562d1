"""Latents of images, as an autoencoder has made them, read from a file of arrays."""

import functools
import math
import os
import re
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
import torch
from annotated_types import Ge, Gt
from torch import Tensor

from ganexp.batch import Batch
from ganexp.data.dataset import Dataset
from ganexp.data.digest import of_data
from ganexp.facts import Facts, Misfit
from ganexp.printable import one_line, printable
from ganexp.ranges import checked

LATENTS, LABELS = "latents", "labels"
"""The names of the arrays in a .safetensors file. Without such names, its only array of floats is that of the latents."""
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
AT_ONCE = 32
"""How many latents are decoded at a time."""
CHECKED = 256
"""How many latents are checked for mistakes in how they were saved."""
Scale = Annotated[float, Gt(0)]


class Decoder(Protocol):
    """Makes images of latents."""

    shape: tuple[int, ...]
    """Of an image, `(C, H, W)`."""
    digest: str
    """The digest of its weights."""

    def __call__(self, latents: Tensor) -> Tensor:
        """Map latents as they are in the file, `(B, C, H, W)`, to images in [-1, 1]."""


class Latents(Dataset):
    """Arrays of floats `(N, C, H, W)` in a `.npy` or `.safetensors` file, mapped into memory; nothing in it is executed.

    Networks are given latents times `scale`. Pictures and measures are made by the decoder from latents divided by `scale`;
    without a decoder, they are the first channel as a grey image.

    Args:
        path: The file, or one on the Hugging Face Hub, as `hf://datasets/owner/name/FILE`, a branch, tag or commit behind
            the name as in `@v1`. In a `.safetensors` file, the array `latents` or the only one of floats, and perhaps `labels`.
        labels: A `.npy` file of integers `(N,)`, the classes; values that occur are numbered from 0 on.
        shape: Of one sample, which each array is brought to, row by row; that of the file otherwise.
        scale: What latents are multiplied by.
        decode: The place of the decoder. The data set only stores it; the caller loads the decoder and sets `decoder`.
    """

    bounded = False

    @checked
    def __init__(
        self,
        path: str,
        *,
        labels: str | None = None,
        shape: tuple[Annotated[int, Ge(1)], ...] | None = None,
        scale: Scale = 1.0,
        decode: str | None = None,
    ) -> None:
        self.path, self.scale, self.decode = path, scale, decode
        self.decoder: Decoder | None = None
        stored = self._stored[LATENTS]
        self._refuse(stored.dtype in FLOATS, "path", path, "floats", stored)
        own = tuple(stored.shape[1:])
        self.shape = own if shape is None else tuple(shape)
        if shape is not None and math.prod(own) != math.prod(shape):
            raise ValueError(f"shape={_times(shape)} has other numbers than the arrays in {printable(path)}, {_times(own)}")
        whole = len(self.shape) == 3 and stored.dim() > 0 and stored.numel() > 0
        self._refuse(whole, "path", path, "arrays (N, C, H, W), or a shape", stored)
        if own == (*self.shape[1:], self.shape[0]) != self.shape:
            raise ValueError(
                f"shape={_times(self.shape)} would mix channels and places of the arrays in {printable(path)}, {_times(own)}: "
                "save them as (N, C, H, W)"
            )
        self._length = len(stored)
        self._of_labels = labels if labels is not None else path if LABELS in self._stored else None
        if self._of_labels is not None:
            self._numbered  # noqa: B018 (mistakes are reported now)

    def check(self, run: Facts) -> None:
        super().check(run)
        if run.flip:
            raise Misfit("has latents, and a mirrored latent is not that of a mirrored image", flip=False)
        channels, height, width = self.shape
        if width < height == channels:
            run.warn(f"takes {_times(self.shape)} for {channels} channels: if the last are channels, save them as (N, C, H, W)")
        first, second = (self.load()[:CHECKED] < 0).tensor_split((channels // 2,), 1)
        if channels % 2 == 0 and 0.1 < first.float().mean() < 0.9 and second.float().mean() > 0.99:
            run.warn(
                f"has {channels} channels, of which the second half look like logarithms of variances: if these are moments, "
                "save the first half, the means"
            )

    def load(self) -> Tensor:
        return self._stored[LATENTS].reshape(self._length, *self.shape)

    def derive(self, batch: Batch) -> Batch:
        return batch if self.scale == 1 else Batch(batch.values * self.scale, batch.conditions)

    def pictures(self, samples: Tensor) -> Tensor:
        if self.decoder is None:
            return samples
        return torch.cat([self.decoder(part / self.scale) for part in samples.split(AT_ONCE)])

    @property
    def picture_shape(self) -> tuple[int, ...]:
        return self.shape if self.decoder is None else self.decoder.shape

    @property
    def pictured_by(self) -> str:
        return "" if self.decoder is None else self.decoder.digest

    @property
    def classes(self) -> int:  # type: ignore[override]  # read from a file
        return 0 if self._of_labels is None else len(self._numbered[0])

    @property
    def class_names(self) -> list[str]:  # type: ignore[override]
        return [] if self._of_labels is None else [str(value) for value in self._numbered[0].tolist()]

    def labels(self) -> Tensor:
        if self._of_labels is None:
            raise ValueError(f"{printable(self.path)} has no labels: name a file of them with dataset.labels=…")
        return self._numbered[1]

    def digest(self) -> str:
        return of_data(self.load())

    @functools.cached_property
    def _stored(self) -> dict[str, Tensor]:
        return {LATENTS: _array(self.path)} if self.path.endswith(".npy") else _tensors(self.path)

    @functools.cached_property
    def _numbered(self) -> tuple[Tensor, Tensor]:
        place = str(self._of_labels)
        read = self._stored[LABELS] if place == self.path and LABELS in self._stored else _array(place)
        whole = not read.is_floating_point() and read.dtype != torch.bool and read.shape == (self._length,)
        self._refuse(whole, "labels", place, f"{self._length} integers, one for each latent", read)
        values, numbers = read.long().unique(return_inverse=True)
        return values, numbers

    def _refuse(self, fits: bool, key: str, place: str, wanted: str, content: Tensor) -> None:
        if not fits:
            held = f"{str(content.dtype).removeprefix('torch.')} of shape {_times(content.shape)}"
            raise ValueError(f"{key}={printable(place)} should hold {wanted}, and holds {held}")


def _times(shape: Any) -> str:
    return "×".join(map(str, shape)) or "()"


def _array(path: str) -> Tensor:
    """Map an array of a `.npy` file into memory."""
    place = _file(path)
    try:
        array: np.ndarray = np.lib.format.open_memmap(place, mode="c")  # np.load would open a zip, too
        return torch.from_numpy(array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")))
    except (ValueError, TypeError, EOFError, OverflowError) as error:  # broken, a pickle, or no numbers
        raise ValueError(f"{printable(path)} is no .npy file of numbers ({str(error)[:200]})") from None


def _tensors(path: str) -> dict[str, Tensor]:
    """Map the latents of a `.safetensors` file, and its labels, if there are any, into memory."""
    import safetensors

    place = _file(path)
    try:
        with safetensors.safe_open(place, "pt") as file:
            names = [*file.keys()]
            floats = [name for name in names if file.get_slice(name).get_dtype() in ("F16", "BF16", "F32", "F64")]
            chosen = LATENTS if LATENTS in names else floats[0] if len(floats) == 1 else None
            if chosen is not None:
                labels = {LABELS: file.get_tensor(LABELS)} if LABELS in names else {}
                return {LATENTS: file.get_tensor(chosen), **labels}
    except safetensors.SafetensorError as error:
        raise ValueError(f"{printable(path)} is no .npy or .safetensors file ({str(error)[:200]})") from None
    listed = printable(", ".join(names[:10])) or "none"
    raise ValueError(f"{printable(path)} should hold an array called {LATENTS}, or one of floats alone, and has {listed}")


def _file(path: str) -> Path:
    """Return the path of a file, which is fetched if it is on the hub."""
    place = _fetched(path) if path.startswith("hf://") else Path(os.path.expanduser(path))
    if place.is_dir():
        raise FileNotFoundError(f"{printable(path)} is a folder: name a file in it, or join its files into one by numpy.save")
    if not place.is_file():  # a pipe would be waited for
        raise FileNotFoundError(f"there is no file {printable(path)}: correct the path")
    return place


def _fetched(path: str) -> Path:
    """Return where the hub's cache has a file of a data set's repository, which is downloaded unless it is there."""
    address = re.fullmatch(r"hf://datasets/([^/@]+/[^/@]+)(?:@([^/]+))?/(.+)", path)
    if address is None:
        raise ValueError(f"{printable(path)} names no file on the hub: write hf://datasets/owner/name/latents.safetensors")
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise ValueError(f'{path} needs the package huggingface_hub, which is missing: pip install "ganexp[hub]"') from None
    repo, revision, name = address.groups()
    try:
        return Path(hf_hub_download(repo, name, revision=revision, repo_type="dataset", library_name="ganexp"))
    except Exception as error:  # what the hub and the network raise has no common type
        raise ValueError(f"{printable(path)} cannot be fetched ({type(error).__name__}: {one_line(error)})") from None
