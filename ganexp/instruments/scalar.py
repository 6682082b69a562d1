"""The description of a scalar of the log."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scalar:
    """The description of a scalar of the log for charts, tables, summaries and the progress bar.

    Args:
        meaning: Its meaning, in a few words.
        summary: The values that summarise a run, in W&B's words: `last`, `min`, `max` or `mean`, separated by commas.
        label: Its name in the progress bar; without one, it is not shown there.
        best: Its best value: `lowest` or `highest`, by default `lowest` where `min` is among its summaries. Empty for one that
            is best at neither end, such as a score: runs are ranked by it only in a direction that a person has named.
        basis: What it is measured by, such as the name and checksum of features; values of different bases are not comparable.
        note: A note for readers who compare values, such as whose features are used.
        real: Its value for one half of the real data against the other, if known: the best value to expect.
    """

    meaning: str
    summary: str = "last"
    label: str = ""
    best: str = ""
    basis: str = ""
    note: str = ""
    real: float | None = None

    def __post_init__(self) -> None:
        if not self.best and "min" in self.summary.split(","):
            object.__setattr__(self, "best", "lowest")
