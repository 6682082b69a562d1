"""The contract of a logger."""

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np


@dataclass(frozen=True)
class Picture:
    """A picture in a row: `image` is `(H, W, 3)`, uint8; `path` is where a run folder keeps it."""

    image: np.ndarray
    path: str


Row = dict[str, int | float | Picture]
"""What was measured at one iteration. `progress/iteration` is in every row."""

Ending = Literal["finished", "failed", "preempted"]
"""How a run ended: by itself, with an error, or because of a signal."""


class Summary(TypedDict):
    """What a run returns and `summary.json` holds."""

    state: Ending
    iteration: int
    wall_s: float
    notes: list[str]
    """What a person should know of it, a sentence each."""
    paths: dict[str, str]
    """Where a person finds what was written, by name."""
    last: dict[str, Any]
    """The last value of each key, a picture as its path."""


class Logger:
    """The contract, with do-nothing defaults."""

    def tick(self) -> None:
        """Note that one iteration has been launched. Called in the loop, so it must cost next to nothing."""

    def write(self, row: Row) -> None:
        """Keep a row."""

    def rewind(self, iteration: int) -> Row:
        """Drop the rows of later iterations, which will be written again; return the last value of every key before."""
        return {}

    def close(self, summary: Summary) -> None:
        """Finish, given how the run has ended, and add to the summary's notes and paths. Called once."""
