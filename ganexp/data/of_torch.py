"""A torch dataset of the user's own."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.dataset import Dataset
from ganexp.data.decoding import DecodingError, UnlikeError
from ganexp.data.digest import of_number
from ganexp.ranges import checked

CHECKED = 16
"""The most samples that are read before a run begins."""


class Torch(Dataset):
    """Any map-style `torch.utils.data.Dataset`, read sample by sample while a run trains.

    A sample is an image or a pair of an image and a label, which is ignored here. Images are uint8 tensors `(C, H, W)`, float
    tensors `(C, H, W)` in [-1, 1], or PIL images of eight bits, which become RGB unless they are grey; all of one kind and
    shape. Float tensors `(2,)` are points of the plane.

    If the dataset has `targets`, as torchvision's have, these are the labels: integers, one per sample, each of which that
    occurs is a class; if it has `classes`, a list of texts, these are their names.

    Args:
        dataset: The dataset.
        shape: Of one sample; by default that of the first, which is read in any case.
    """

    @checked
    def __init__(self, *, dataset: MapStyle[Any], shape: tuple[int, ...] | None = None) -> None:
        try:
            self._length = len(dataset)  # type: ignore[arg-type]
        except (TypeError, NotImplementedError):
            raise ValueError(f"{type(dataset).__name__} should have a length: define __len__") from None
        if not self._length:
            raise ValueError(f"{type(dataset).__name__} should have samples, and has none")
        self.dataset = dataset
        try:
            first = tensor_of(dataset[0])
        except ValueError as error:
            raise ValueError(f"sample 0 {error}") from None
        self.shape = tuple(first.shape if shape is None else shape)
        self._samples = _Samples(dataset, self._length, self.shape, first.dtype)
        if self.shape != tuple(first.shape):
            raise ValueError(f"sample 0 should be of shape {self.shape}, and is of shape {tuple(first.shape)}")
        values, self._targets = self._labels()
        names: Any = getattr(dataset, "classes", None)
        named = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names) and values[-1:] < [len(names)]
        self.class_names = [names[value] if named else str(value) for value in values]
        self.classes = len(values)

    def digest(self) -> str:
        """Return a digest of the number of samples, since their content is not read."""
        return of_number(self._length)

    def load(self) -> MapStyle[Tensor]:
        """Return a map-style dataset of uint8 or float tensors; a few are checked now, and each when it is read."""
        for index in range(0, self._length, -(-self._length // CHECKED)):
            self._samples[index]
        return self._samples

    def labels(self) -> Tensor:
        if self._targets is None:
            raise ValueError(f"{type(self.dataset).__name__} should have targets where labels are needed, one per sample")
        return self._targets

    def _labels(self) -> tuple[list[int], Tensor | None]:
        """Return the sorted distinct targets, and the index of each sample's target among them."""
        targets = getattr(self.dataset, "targets", None)
        if targets is None:
            return [], None
        try:
            labels = torch.as_tensor(targets)
        except (TypeError, ValueError, RuntimeError):
            labels = torch.empty(0)
        whole = not labels.is_floating_point() and not labels.is_complex() and labels.dtype != torch.bool
        if labels.shape != (self._length,) or not whole or labels.min() < 0:
            raise ValueError(
                f"targets of {type(self.dataset).__name__} should be {self._length} integers from 0 on, one per sample"
            )
        values, places = labels.unique(return_inverse=True)
        return values.tolist(), places


class _Samples(MapStyle[Tensor]):
    def __init__(self, dataset: MapStyle[Any], length: int, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.dataset = dataset
        self.length = length
        self.shape = shape
        self.dtype = dtype

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Tensor:
        try:
            sample = tensor_of(self.dataset[index])
        except ValueError as error:
            raise DecodingError(f"sample {index} {error}") from error
        if (tuple(sample.shape), sample.dtype) != (self.shape, self.dtype):
            kinds = (
                f"{str(dtype).removeprefix('torch.')} of shape {tuple(s)}"
                for dtype, s in ((self.dtype, self.shape), (sample.dtype, sample.shape))
            )
            difference = "sample {} should be {}, as the first, and is {}".format(index, *kinds)
            raise UnlikeError(f"{difference}: {self._remedy(sample)}")
        return sample

    def _remedy(self, sample: Tensor) -> str:
        size = list(self.shape[-2:])
        if size == list(sample.shape[-2:]) or len(size) < 2:
            return "have the dataset return all samples alike"
        if hasattr(self.dataset, "transform"):
            key, listed = "+dataset.dataset.transform", str(size).replace(" ", "")
            return f"bring all to one size, by {key}._target_=torchvision.transforms.Resize {key}.size={listed}"
        return f"have the dataset bring all images to one size, as by torchvision.transforms.Resize({size})"


def tensor_of(sample: Any) -> Tensor:
    """Return the image, or the point, of a sample as a uint8 or float tensor.

    If it cannot be trained on, the message of a ValueError is a predicate whose subject is the sample.
    """
    from PIL import Image

    value = sample[0] if isinstance(sample, (tuple, list)) and len(sample) else sample
    if isinstance(value, Image.Image):
        from torchvision.transforms.v2.functional import pil_to_tensor  # slow to import

        if value.mode.startswith(("I", "F")):
            raise ValueError(f"should have eight bits per channel, and is a PIL image of mode {value.mode}")
        return pil_to_tensor(value if value.mode == "L" else value.convert("RGB"))
    if not isinstance(value, Tensor):
        raise ValueError(
            f"should be a tensor or a PIL image, or a pair of that and a label, and is of type {type(value).__name__}"
        )
    value = value.detach()
    if value.dtype == torch.uint8 and value.dim() == 3 and value.numel():
        return value
    if not value.is_floating_point():
        raise ValueError(f"should be a uint8 tensor (C, H, W) or a float one, and is {_described(value)}")
    if value.shape == (2,):
        return value
    if value.dim() != 3 or not value.numel():
        raise ValueError(f"should be an image (C, H, W) or a point (2,), and is {_described(value)}")
    low, high = value.aminmax()
    if not (low >= -1 and high <= 1):
        raise ValueError(
            f"should have its values in [-1, 1], and has them in [{low:.3g}, {high:.3g}]: scale it, or return uint8"
        )
    return value


def _described(value: Tensor) -> str:
    return f"a tensor {tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
