"""The contract of a logger."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
from PIL import Image

from ganexp.facts import Facts
from ganexp.instruments.scalar import Scalar
from ganexp.logging.reading import RecordedRun


@dataclass(frozen=True)
class Picture:
    """A picture in a row: `image` is `(H, W, 3)`, uint8; `path` is where a run folder keeps it."""

    image: np.ndarray
    path: str


Row = dict[str, int | float | Picture]
"""What was measured at one iteration. `progress/iteration` is in every row."""


def with_pictures(row: Mapping[str, int | float | str], folder: Path) -> Row:
    """Return a row of a run folder as it was written, without the pictures that are missing."""
    written: Row = {}
    for key, value in row.items():
        if not isinstance(value, str):
            written[key] = value
            continue
        with suppress(OSError), Image.open(folder / value) as picture:
            written[key] = Picture(np.asarray(picture), value)
    return written


Ending = Literal["finished", "failed", "preempted"]
"""How a run ended: normally, with an error, or because of a signal."""


class Summary(TypedDict):
    """What a run returns and `summary.json` holds."""

    state: Ending
    iteration: int
    wall_s: float
    notes: list[str]
    """Notes on the run, one sentence each."""
    paths: dict[str, str]
    """The paths of what was written, by name."""
    last: dict[str, Any]
    """The last value of each key, a picture as its path."""


@dataclass(frozen=True)
class RunDescription:
    """The description of a run that its loggers are opened with."""

    folder: Path  # which exists
    name: str = ""  # its data, loss, strategy and seed
    label: str = ""  # its name among the runs of its sweep, if there is one
    group: str = ""  # the name of its sweep
    config: dict[str, Any] = field(default_factory=dict)  # the whole configuration and where the run comes from
    measures: dict[str, Scalar] = field(default_factory=dict)  # what its parts measure, by key of the rows
    before: RecordedRun | None = None  # the content of a resumed run: rows that loggers were given already


class Logger:
    """The contract, with do-nothing defaults.

    A logger that a configuration can choose is a class that overrides `open` and takes its settings as keyword arguments, and
    a YAML file in conf/logger/ that names it. It is made when the configuration is checked, and writes nothing before it is
    opened.
    """

    def check(self, run: Facts) -> None:
        """Refuse, by a `Misfit`, a run that cannot be logged, before the run has a folder. Called in every process."""

    def open(self, run: RunDescription) -> None:
        """Open the logger, in the main process, or raise a `Misfit`. Called before the first row, if the run has a folder."""

    def tick(self) -> None:
        """Note that one iteration has been launched. Called in the loop, so it must cost next to nothing."""

    def write(self, row: Row) -> None:
        """Write a row."""

    def rewind(self, iteration: int) -> Row:
        """Drop the rows of later iterations, which will be written again; return each key's last value up to `iteration`."""
        return {}

    def close(self, summary: Summary) -> None:
        """Close the logger with the run's summary, and add notes and paths to it. Called once."""
