"""What measures keep of a real set, on the disk: images are seen once, not once per run."""

import copy
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ganexp.evaluation.features import Features
from ganexp.evaluation.parts import DIRECTIONS, MOST, Part

VERSION = 1
"""Of what is kept of a set."""
FILES = 64
"""So many stay in a folder."""

Parts = Mapping[type[Part], Part]


def place(folder: Path, identity: str, features: Features, n: int, parts: Parts) -> Path:
    """Return where these parts of a set of `n` samples lie, given what tells the set from any other."""
    kinds = sorted(part.__name__ for part in parts)
    described = json.dumps([VERSION, MOST, DIRECTIONS, kinds, n, features.name, features.checksum, identity])
    return folder / f"{hashlib.sha256(described.encode()).hexdigest()[:24]}.pt"


def recall(path: Path, parts: Parts) -> bool:
    """Take over statistics that were kept, if they are there whole."""
    try:
        states: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        tried = [copy.deepcopy(part) for part in parts.values()]
        for kind, part in zip(parts, tried, strict=True):
            part.load_state_dict(states[kind.__name__])
    except Exception:  # what a broken file makes torch raise has no common type
        return False
    for kind, part in parts.items():
        part.load_state_dict(states[kind.__name__])
    with suppress(OSError):  # another's file, perhaps
        path.touch()
    return True


def keep(path: Path, parts: Parts) -> None:
    """Write statistics, whole or not at all, and delete those unused for longest; what cannot be kept is done without."""
    unfinished = path.with_suffix(f".{os.getpid()}")
    with suppress(OSError, RuntimeError):
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({kind.__name__: part.state_dict() for kind, part in parts.items()}, unfinished)
        unfinished.replace(path)
        for old in sorted(path.parent.glob("*.pt"), key=os.path.getmtime)[:-FILES]:
            old.unlink(missing_ok=True)
