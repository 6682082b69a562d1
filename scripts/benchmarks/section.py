"""What a benchmark returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from ganexp.cli.pages import figures
from ganexp.compare.intervals import Interval


@dataclass
class Section:
    """One benchmark's part of the page: Markdown, and figures with captions."""

    title: str
    text: str
    figures: dict[str, Figure] = field(default_factory=dict)


def bars(ratios: Mapping[str, Interval], label: str) -> Figure:
    """Draw ratios as bars from the top down."""
    figure = Figure(figsize=(8, 1 + 0.32 * len(ratios)), layout="constrained")
    figures.bars(figure.subplots(), dict(list(ratios.items())[::-1]), label)
    return figure
