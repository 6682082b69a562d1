"""Digests of training data, stored in checkpoints, and equal on all machines.

They are made to be cheap, and so do not cover everything: of files, they cover every name and size and the beginnings of a
few; of a tensor, every value up to `MOST` bytes, and evenly spaced samples beyond.
"""

import hashlib
import os
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

MOST = 2**28
"""The most bytes of a tensor that are read."""
FILES, HEAD = 64, 2**16
"""The most files, evenly spaced, that are read, and how many of the first bytes of each."""


def of_data(data: Tensor | MapStyle[Tensor]) -> str:
    """Return the digest of a tensor's values, or of the number of samples where these would have to be read one by one."""
    if not isinstance(data, Tensor):
        return of_number(len(data))  # type: ignore[arg-type]
    sampled = data[:: -(-data.nbytes // MOST) or 1].contiguous().cpu()
    content = hashlib.sha256(f"{data.dtype} {list(data.shape)}".encode())
    content.update(sampled.view(torch.uint8).numpy().data)  # as bytes, since NumPy has no bfloat16
    return f"tensor-{content.hexdigest()[:32]}"


def of_number(samples: int) -> str:
    """Return the digest of data of which only the number of samples is known: enough for resuming, not for naming a cache."""
    return f"samples-{samples}"


def of_files(files: Sequence[tuple[str, int]], head: Callable[[int, int], bytes]) -> str:
    """Return the digest of files, given by their names and sizes; `head(i, length)` reads the first bytes of file i."""
    content = hashlib.sha256()
    for name, size in files:
        content.update(os.fsencode(name) + b"\0%d\0" % size)
    for index in range(len(files))[:: -(-len(files) // FILES) or 1]:
        content.update(head(index, HEAD))
    return f"files-{content.hexdigest()[:32]}"
