"""Pictures of runs, embedded in the page. What a run says about its pictures is not trusted."""

import base64
import io
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from ganexp.logging.reading import RecordedRun

WIDEST = (700, 500, 350, 250, 175)
"""Larger pictures are scaled down to this many pixels on the longer side: to the first with which the newest ones have room."""
QUALITY = 80
"""Of WebP: grids then take a third of what PNG takes, and single pixels are still seen."""
SHARED = "real"
"""The key of pictures that are alike in runs of one seed, and stand on the page once."""
MOST_PIXELS, MOST_BYTES = 2**25, 2**25
"""Anything larger is no grid of samples, and decoding it could take all memory."""


@dataclass
class Shown:
    """A run's pictures by key, each an iteration and a data URL, and what kept other pictures from being shown."""

    frames: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def shown(found: Sequence[RecordedRun], most: int, room: int) -> list[Shown]:
    """Return each run's pictures: the newest of each key, and as many of the earlier ones as have room on the page.

    Args:
        found: The runs.
        most: The most pictures of one key, over all runs.
        room: How many bytes all pictures together should take.
    """
    for widest in WIDEST:
        newest = [_shown(run, 1, widest) for run in found]
        urls = [(key, url) for one in newest for key, frames in one.frames.items() for _, url in frames]
        taken = sum(len(url) for key, url in urls if key != SHARED) + sum(map(len, {url for key, url in urls if key == SHARED}))
        if taken <= room:
            break
    each = min(most // max(1, len(found)), room // max(1, taken))
    return [_shown(run, each, widest) for run in found] if each > 1 else newest


def _shown(run: RecordedRun, most: int, widest: int) -> Shown:
    """Return at most `most` pictures of each key, evenly spaced, the newest one always among them."""
    found = Shown()
    keys = dict.fromkeys(key for row in run.rows for key, value in row.items() if isinstance(value, str))
    for key in keys:
        rows = [(row["progress/iteration"], row[key]) for row in run.rows if isinstance(row.get(key), str)]
        failures = []
        for at, name in _thinned(rows, most):
            try:
                picture = inlined(run.folder, name, widest)
                found.frames.setdefault(key, []).append((at, picture))
            except ValueError as error:
                failures.append(f"{key} of iteration {at}: {error}")
        found.problems += failures[:1] + [f"{len(failures) - 1} more of {key} cannot be shown"] * (len(failures) > 1)
    return found


def inlined(folder: Path, name: str, widest: int) -> str:
    """Return a PNG file of a run folder as a data URL, scaled down where its longer side has more than `widest` pixels.

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
    small.thumbnail((widest, widest))
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=QUALITY)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def _thinned(rows: Sequence[tuple[int, str]], most: int) -> list[tuple[int, str]]:
    return [rows[i] for i in sorted({round(i) for i in np.linspace(len(rows) - 1, 0, min(len(rows), most))})]
