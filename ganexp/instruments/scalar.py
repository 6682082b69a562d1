"""What a scalar of the log is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scalar:
    """A scalar of the log, described once: for charts, tables, summaries and the progress bar.

    Args:
        meaning: What it is, in a few words.
        summary: Which of its values sum up a run, in W&B's words: `last`, `min`, `max` or `mean`, separated by commas. With
            `min`, low is good.
        label: What the progress bar calls it; without one, it is not shown there.
        best: Which of its values is best: `lowest` or `highest`.
        basis: What it was measured by, such as the name and checksum of features: figures of different bases do not compare.
        note: What a reader should know before comparing it, such as whose features it was measured in.
        real: Its value for one half of the real data against the other, if that is known: what can be hoped for.
    """

    meaning: str
    summary: str = "last"
    label: str = ""
    best: str = "lowest"
    basis: str = ""
    note: str = ""
    real: float | None = None
