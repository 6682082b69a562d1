"""The curves of a report as pictures: a PNG and an SVG for each key."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ganexp.cli.commands.report import charts
from ganexp.cli.pages import comparing
from ganexp.documents import atomic_write
from ganexp.logging.reading import RecordedRun

DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
"""The dashes of lines, by plotly's name: matplotlib's."""


def write(found: Sequence[RecordedRun], folder: Path) -> int:
    """Write the curves of all keys over iterations, in the colours of the page, and return how many keys there are."""
    groups = [group for group in comparing.grouped(found) if any(run.rows for run in group.runs)]
    keys = charts.chartable(found)
    folder.mkdir(parents=True, exist_ok=True)
    for key in keys:
        figure = curves(key, charts.chart(key, groups))
        for suffix in ("png", "svg"):
            with atomic_write(folder / f"{key.replace('/', '_')}.{suffix}") as file:
                figure.savefig(file, format=suffix, dpi=150, metadata={"Date": None} if suffix == "svg" else None)
    return len(keys)


def curves(key: str, chart: charts.Figure) -> Figure:
    """Draw a chart of the page: the mean of each group with its band, and the rest of longer runs thinly."""
    figure = Figure((6, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="iterations", ylabel=key)
    named: set[str] = set()
    for trace, x in zip(chart["data"], chart["axes"]["iterations"], strict=True):
        if "fill" in trace:
            axes.fill(_numbers(x), _numbers(trace["y"]), color=trace["fillcolor"], alpha=trace["opacity"], linewidth=0)
            continue
        line = trace["line"]
        told = {} if trace["name"] in named else {"label": trace["name"]}
        named.add(trace["name"])
        marker = "o" if trace["mode"] == "markers" else None
        style = {"color": line["color"], "linewidth": line["width"], "linestyle": DASHES[line["dash"]]}
        axes.plot(_numbers(x), _numbers(trace["y"]), marker=marker, **style, **told)
    if len(named) > 1:
        axes.legend(fontsize="small")
    return figure


def _numbers(values: Sequence[float | None]) -> list[Any]:
    return [float("nan") if value is None else value for value in values]
