"""Corrupt images: found when a whole set is decoded, and left out from then on.

The cache notes which ones they are, under the name that the set has with them; these are tried again only when the set changes.
"""

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.data.decoding import DecodingError, ReadingError
from ganexp.documents import write_document

log = logging.getLogger(__name__)
NAMED = 10
"""The most images that a message names."""


class Corrupt(DecodingError):
    """Some images of a set cannot be decoded; the message is about the first of them.

    `images` has the error of each of them, one sentence, by its index in the set.
    """

    def __init__(self, images: dict[int, str]) -> None:
        super().__init__(images[min(images)])
        self.images = images


class TolerantDataset(MapStyle[Tensor]):
    """A dataset that returns, for a batch, the images that can be decoded, and the errors of the others by index."""

    def __init__(self, data: MapStyle[Tensor]) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)  # type: ignore[arg-type]

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, dict[int, str]]:
        images: list[Tensor] = []
        corrupt: dict[int, str] = {}
        if batch := getattr(self.data, "__getitems__", None):
            with suppress(DecodingError):  # reading one by one then shows which are corrupt
                return torch.stack(batch(indices)), corrupt
        for index in indices:
            try:
                images.append(self.data[index])
            except ReadingError:  # which may not recur in the next run
                raise
            except DecodingError as error:
                corrupt[index] = str(error)
        return torch.stack(images) if images else torch.empty(0, dtype=torch.uint8), corrupt


def first_of(texts: Sequence[str]) -> str:
    """Return the first of some texts, and how many more there are."""
    more = [f"and {len(texts) - NAMED:,} more"] if len(texts) > NAMED else []
    return "; ".join([*texts[:NAMED], *more])


def report_skipped(where: str, images: dict[int, str], count: int) -> None:
    """Log how many of the `count` images of a set are left out, and the errors of the first ones; refuse to leave out all."""
    if len(images) == count:
        raise OSError(f"none of the images in {where} can be decoded: {images[0]}")
    errors = first_of([images[index] for index in sorted(images)])
    log.warning("%s: %s of %s images are skipped: %s.", where, f"{len(images):,}", f"{count:,}", errors)


def note(folder: Path, name: str, images: dict[int, str]) -> None:
    """Record the corrupt images of a set in a file, under the set's lock."""
    write_document(_noted(folder, name), [*images.items()])


def recall(folder: Path, name: str) -> dict[int, str]:
    """Return the recorded corrupt images of a set."""
    try:
        return {int(index): str(sentence) for index, sentence in json.loads(_noted(folder, name).read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError):
        return {}


def _noted(folder: Path, name: str) -> Path:
    return folder / f"{name}.corrupt.json"
