"""How figures show measured ratios with their intervals."""

from collections.abc import Collection, Mapping, Sequence

from matplotlib.axes import Axes

from ganexp.compare.intervals import Interval


def bars(axes: Axes, ratios: Mapping[str, Interval], label: str, colors: str | Sequence[str] = "tab:blue") -> None:
    """Draw ratios as bars from the bottom up, beside a line at 1."""
    middles = [ratio.middle for ratio in ratios.values()]
    axes.barh(list(ratios), middles, xerr=reaches(ratios.values()), color=colors, ecolor="0.25", capsize=2)
    axes.axvline(1, color="0.25", linewidth=0.8, linestyle=":")
    axes.set(xlabel=label)


def reaches(intervals: Collection[Interval]) -> list[list[float]]:
    """Return how far intervals reach below and above their middles, in matplotlib's form for error bars."""
    return [[each.middle - each.low for each in intervals], [each.high - each.middle for each in intervals]]
