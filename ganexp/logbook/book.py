"""The contract of a logbook."""

from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Picture:
    """A picture in a row: `image` is `(H, W, 3)`, uint8; `path` is where a run folder keeps it."""

    image: np.ndarray
    path: str


State = Literal["finished", "failed", "preempted"]
"""How a run has ended: by itself, with an error, or because a signal has asked it to."""

Row = dict[str, int | float | Picture]
"""What is known of one iteration. `progress/iteration` is in every row."""


class Book:
    """The contract, with do-nothing defaults."""

    def tick(self) -> None:
        """Note that one iteration has been launched. Called in the loop, so it must cost next to nothing."""

    def write(self, row: Row) -> None:
        """Keep a row."""

    def rewind(self, iteration: int) -> None:
        """Go back: rows of later iterations are about to be written once more."""

    def close(self, state: State) -> None:
        """Finish, knowing how the run has ended. Called once."""

    def signposts(self) -> dict[str, str]:
        """Return where a person finds what was written, by name."""
        return {}
