"""A disk cache of the statistics of real sets, which are computed once, not once per run."""

import copy
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ganexp.documents import read_state, write_state
from ganexp.evaluation.features import Features
from ganexp.evaluation.statistics import DIRECTIONS, Statistics

VERSION = 3
"""Version of the format of a file."""
FILES = 64
"""The number of files that are kept in a folder."""


def place(folder: Path, identity: Any, features: Features, n: int, statistics: Statistics) -> Path:
    """Return the path of these statistics of `n` samples; `identity` identifies the set and how it is compared."""
    described = json.dumps([VERSION, DIRECTIONS, sorted(statistics), n, features.name, features.checksum, identity])
    return folder / f"{hashlib.sha256(described.encode()).hexdigest()[:24]}.pt"


def recall(path: Path, empty: Statistics) -> tuple[Statistics, dict[str, float]] | None:
    """Return kept statistics and the figures of the set's halves; None if the file is missing or broken."""
    try:
        states: dict[str, Any] = read_state(path)
        statistics = copy.deepcopy(empty)
        for kind, statistic in statistics.items():
            statistic.load_state_dict(states[kind])
        halves = {str(key): float(figure) for key, figure in states["halves"].items()}
    except Exception:  # whatever a file of another version holds
        return None
    with suppress(OSError):  # perhaps another user's file
        path.touch()
    return statistics, halves


def keep(path: Path, statistics: Statistics, halves: Mapping[str, float]) -> None:
    """Write statistics, whole or not at all, and delete the least recently used files; disk errors are ignored."""
    states = {kind: statistic.state_dict() for kind, statistic in statistics.items()}
    with suppress(OSError):
        write_state(path, {**states, "halves": {**halves}})
        for old in sorted(path.parent.glob("*.pt"), key=os.path.getmtime)[:-FILES]:
            old.unlink(missing_ok=True)
