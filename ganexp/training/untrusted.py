"""Checkpoint files from anywhere: what one claims is bounded before memory is taken for it."""

import pickletools
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

GLOBALS = {"torch._utils _rebuild_tensor_v2", "collections OrderedDict"}
"""All that a checkpoint's pickle calls, beside the types of storages. Torch's own list is longer, and has `bytearray` in it,
which makes as many bytes as it is told to."""

DEEPEST = 40
MOST_VALUES = 500_000
MOST_VALUES_OF_A_CONFIGURATION = 5_000
LONGEST_TEXT = 20_000


class CheckpointError(ValueError):
    """A checkpoint cannot be read or does not fit, said in one sentence."""


def refuse_bomb(path: Path) -> None:
    """Look at a file's directory and at its pickle's instructions, without following any.

    Raises:
        CheckpointError: It would unpack to far more than its size, or calls what no checkpoint needs.
        Exception: It is no archive, in one of many ways.
    """
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > 2 * path.stat().st_size + 2**20:
            raise CheckpointError(f"{path} unpacks to far more than its size; it is no checkpoint of ganexp")
        if len({part.filename.lower() for part in parts}) < len(parts):
            raise CheckpointError(f"{path} has a part twice; it is no checkpoint of ganexp")
        (pickled,) = [part for part in parts if part.filename.endswith("/data.pkl")]
        if pickled.file_size > 2**18 + 2**11 * len(parts):
            raise CheckpointError(f"{path} holds too much beside its tensors; it is no checkpoint of ganexp")
        for instruction, argument, _ in pickletools.genops(archive.read(pickled)):
            if instruction.name == "GLOBAL" and argument not in GLOBALS and not _names_a_storage(str(argument)):
                raise CheckpointError(f"{path} would call {str(argument)[:80]!r}; it is no checkpoint of ganexp")


def refuse_oversized(path: Path, state: dict[str, Any]) -> None:
    """Refuse what is small in the file and would be large once it is copied, written out or computed with.

    Raises:
        CheckpointError: Values are nested too deeply or shared too often, numbers or texts are too long, or tensors claim
            more elements than they have.
    """
    try:
        _count(state, MOST_VALUES)
        _count(state["config"], MOST_VALUES_OF_A_CONFIGURATION, tensors=False)
    except ValueError as error:
        raise CheckpointError(f"{path} is no checkpoint of ganexp: {error}") from None


def _count(value: Any, left: int, depth: int = 0, *, tensors: bool = True) -> int:
    """Return how many values are left to be counted, every value as often as it is reached."""
    left -= 1
    if left < 0 or depth > DEEPEST:
        raise ValueError("it is nested too deeply, or holds too many values")
    if isinstance(value, dict):
        for key, item in value.items():
            left = _count(item, _count(key, left, depth + 1), depth + 1, tensors=tensors)
    elif isinstance(value, (list, tuple)):
        for item in value:
            left = _count(item, left, depth + 1, tensors=tensors)
    elif isinstance(value, Tensor) and tensors:
        if value.layout is not torch.strided or value.is_quantized or value.requires_grad:
            raise ValueError("a tensor in it is of a kind that no checkpoint holds")
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise ValueError("a tensor in it claims more elements than it has")
    elif isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise ValueError("a string in it is too long")
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise ValueError("a number in it is too long")
    elif not (value is None or isinstance(value, float)):
        raise ValueError(f"it holds a {type(value).__name__}")
    return left


def _names_a_storage(name: str) -> bool:
    module, _, kind = name.partition(" ")
    return (module == "torch" and kind.endswith("Storage")) or name == "torch.storage UntypedStorage"
