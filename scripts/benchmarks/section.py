"""What a benchmark returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from ganexp.compare.intervals import Interval


@dataclass
class Section:
    """One benchmark's part of the page: Markdown, and figures with captions."""

    title: str
    text: str
    figures: dict[str, Figure] = field(default_factory=dict)


def bars(ratios: Mapping[str, Interval], label: str) -> Figure:
    """Draw ratios to 1 as bars with their intervals."""
    figure = Figure(figsize=(8, 1 + 0.32 * len(ratios)), layout="constrained")
    axes = figure.subplots()
    names = list(ratios)[::-1]
    middles = [ratios[name].middle for name in names]
    errors = [[ratios[n].middle - ratios[n].low for n in names], [ratios[n].high - ratios[n].middle for n in names]]
    axes.barh(names, middles, xerr=errors, color="tab:blue", ecolor="0.25", capsize=2)
    axes.axvline(1, color="0.25", linewidth=0.8, linestyle=":")
    axes.set(xlabel=label)
    return figure
