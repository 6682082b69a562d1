"""The contract of a logbook."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Picture:
    """A picture in a row: `image` is `(H, W, 3)`, uint8; `path` is where a run folder keeps it."""

    image: np.ndarray
    path: str


Row = dict[str, int | float | Picture]
"""What is known of one iteration. `progress/iteration` is in every row."""


class Book:
    """The contract, with do-nothing defaults."""

    def tick(self) -> None:
        """Note that one iteration has been launched. Called in the loop, so it must cost next to nothing."""

    def write(self, row: Row) -> None:
        """Keep a row."""

    def close(self, *, failed: bool) -> None:
        """Finish, knowing whether the run ended with an error. Called once."""

    def signposts(self) -> dict[str, str]:
        """Return where a person finds what was written, by name."""
        return {}
