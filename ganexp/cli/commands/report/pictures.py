"""Pictures of runs, embedded in the page. What a run says about its pictures is not trusted."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from ganexp.cli.pages import html
from ganexp.logging.reading import RecordedRun

WIDEST = 700
"""Larger pictures are scaled down to this many pixels on the longer side."""
MOST_PIXELS, MOST_BYTES = 2**25, 2**25
"""Anything larger is no grid of samples, and decoding it could take all memory."""


@dataclass
class Shown:
    """A run's pictures by key, each an iteration and a data URL, and what kept other pictures from being shown."""

    frames: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def shown(run: RecordedRun, most: int) -> Shown:
    """Return at most `most` pictures of each key, evenly spaced, the newest one always among them."""
    found = Shown()
    keys = dict.fromkeys(key for row in run.rows for key, value in row.items() if isinstance(value, str))
    for key in keys:
        rows = [(row["progress/iteration"], row[key]) for row in run.rows if isinstance(row.get(key), str)]
        failures = []
        for at, name in _thinned(rows, most):
            try:
                picture = inlined(run.folder, name)
                found.frames.setdefault(key, []).append((at, picture))
            except ValueError as error:
                failures.append(f"{key} of iteration {at}: {error}")
        found.problems += failures[:1] + [f"{len(failures) - 1} more of {key} cannot be shown"] * (len(failures) > 1)
    return found


def inlined(folder: Path, name: str) -> str:
    """Return a PNG file of a run folder as a data URL.

    Raises:
        ValueError: The file cannot be shown; the message says why.
    """
    try:
        file = Path(os.path.realpath(folder / name, strict=True))
        size = file.stat().st_size
    except (OSError, ValueError) as error:
        raise ValueError(f"{name[:80]} is not there") from error
    if not file.is_relative_to(os.path.realpath(folder)):
        raise ValueError(f"{name[:80]} lies outside the run folder")
    if not file.is_file() or size > MOST_BYTES:
        raise ValueError(f"{name[:80]} is no picture")
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(file, formats=["PNG"]) as image:
            if image.width * image.height > MOST_PIXELS:
                raise ValueError("too large")
            small = image.convert("RGB")
    except Exception as error:  # of any kind: Pillow decodes untrusted bytes here
        raise ValueError(f"{name[:80]} is no picture that can be shown") from error
    return html.inlined(small, WIDEST)


def _thinned(rows: Sequence[tuple[int, str]], most: int) -> list[tuple[int, str]]:
    return [rows[i] for i in sorted({round(i) for i in np.linspace(len(rows) - 1, 0, min(len(rows), most))})]
