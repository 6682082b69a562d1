"""Curves of runs as data for plotly.js: averages over seeds with their band, against every axis."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ganexp.cli.pages.comparing import Group, measures
from ganexp.logging.keys import STEPS, known
from ganexp.logging.meanings import AXES
from ganexp.logging.reading import RecordedRun

Figure = dict[str, Any]
"""`data` and `layout` as plotly.js takes them, and `axes`: the x values of each trace, by the axis's name."""

POINTS = 400
"""The most points of a curve; of longer runs, evenly spaced rows are shown."""
COLORS = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"]
DASHES = {"solid": "", "dash": "6 3", "dot": "2 2", "dashdot": "6 2 2 2"}
"""The dashes of lines, by plotly's name: their pattern in SVG."""
PHASES = {"time/data_ms": "data", "time/d_ms": "D", "time/g_ms": "G"}


def style(number: int) -> dict[str, Any]:
    """Return the line style of a group: a colour of its own, and once the colours are used up, another dash."""
    return {"color": COLORS[number % len(COLORS)], "dash": [*DASHES][number // len(COLORS) % len(DASHES)], "width": 1.5}


def chartable(runs: Sequence[RecordedRun]) -> list[str]:
    """Return the keys that have a curve, the known ones first, in the order of `known`.

    Single eigenvalues have none: they change places from row to row, and `ganexp dynamics` draws them.
    """
    present = dict.fromkeys(
        key
        for run in runs
        for row in run.rows
        for key, value in row.items()
        if not isinstance(value, str) and not re.fullmatch(r"dynamics/(real|imag)_\d+", key)
    )
    ordered = known(measures(runs))
    first = [key for key in ordered if key in present and not key.startswith("progress/")]
    return first + [key for key in present if key not in ordered]


@np.errstate(all="ignore")  # losses that diverge overflow here too
def chart(key: str, groups: Sequence[Group], points: int = POINTS) -> Figure:
    """Return a chart of one key. Each trace has its group's number as `meta`, so that the page's legend can hide it.

    Its x values are in `axes` alone; a curve has at most `points` points.
    """
    data: list[dict[str, Any]] = []
    steps: list[dict[str, np.ndarray]] = []
    for number, group in enumerate(groups):
        line = style(number)
        common = {"type": "scatter", "meta": number, "name": group.name, "hoverlabel": {"namelength": -1}}
        series = [points for points in (curve(run, key) for run in group.runs) if len(points[1])]
        if not series:
            continue
        at, values, rests = averaged(series, points)
        if len(series) > 1:
            high, low = values.max(0), values.min(0)
            drawn = np.isfinite(high) & np.isfinite(low)
            band = finite(np.concatenate([high[drawn], low[drawn][::-1]]))
            fill = {"fill": "toself", "fillcolor": line["color"], "opacity": 0.15, "line": {"width": 0}, "hoverinfo": "skip"}
            data.append({**common, **fill, "mode": "lines", "y": band})
            steps.append({step: np.concatenate([x[drawn], x[drawn][::-1]]) for step, x in at.items()})
        data.append({**common, **_drawn(values.mean(0)), "line": line})
        steps.append(at)
        for rest_at, rest in rests:
            data.append({**common, **_drawn(rest), "line": {**line, "width": 0.7}})
            steps.append(rest_at)
    axes = {words: [finite(at[step]) for at in steps] for step, words in AXES.items()}
    apart = {"ticks": "outside", "ticklen": 5, "tickcolor": "transparent"}  # the lowest label of y is not on the first one of x
    grid = {"gridcolor": "#e8e8e8", "zerolinecolor": "#ccc", "automargin": True, **apart}
    layout = {
        "margin": {"l": 45, "r": 10, "t": 28, "b": 40},
        "xaxis": {**grid, "title": {"text": "iterations"}},
        "yaxis": grid,
        "showlegend": False,
        "font": {"family": "system-ui, sans-serif", "size": 11},
    }
    return {"data": data, "layout": layout, "axes": axes}


Curve = tuple[dict[str, np.ndarray], np.ndarray]
"""The positions of the rows by step, `(n,)` each, and the values there, `(n,)`."""


def curve(run: RecordedRun, key: str) -> Curve:
    """Return a run's values of one key."""
    rows = [row for row in run.rows if key in row and not isinstance(row[key], str)]
    at = {step: np.array([row.get(step, np.nan) for row in rows], dtype=float) for step in AXES}
    return at, np.array([row[key] for row in rows], dtype=float)


def averaged(series: Sequence[Curve], points: int = POINTS) -> tuple[dict[str, np.ndarray], np.ndarray, list[Curve]]:
    """Return mean steps and each run's values `(runs, n)`, up to the end of the shortest run, and the rest of longer runs.

    Runs are aligned by iteration. Where a run has no row at an iteration of the run with the fewest rows, for instance
    because it was logged at another interval, its value is interpolated.
    """
    first = STEPS[0]
    ordered = [_in_order(points) for points in series]
    end = min(at[first][-1] for at, _ in ordered)
    grid = min((at[first][at[first] <= end] for at, _ in ordered), key=len)
    grid = _thinned(grid if len(grid) else np.array([end]), points)
    steps = {step: np.mean([_on(grid, at[first], at[step]) for at, _ in ordered], axis=0) for step in AXES}
    values = np.array([_on(grid, at[first], y) for at, y in ordered])
    beyond = [(at, y, np.flatnonzero(at[first] >= end)) for at, y in ordered]
    thinned = [(at, y, _thinned(past, points)) for at, y, past in beyond]
    rests = [({step: x[past] for step, x in at.items()}, y[past]) for at, y, past in thinned]
    return steps, values, [rest for rest in rests if len(rest[1]) > 1]


def phases(groups: Sequence[Group]) -> list[dict[str, float]]:
    """Return, by group, medians over all rows in milliseconds: each phase of an iteration, and the whole iteration as `all`."""
    named = {**PHASES, "time/iteration_ms": "all"}
    by_group = []
    for group in groups:
        medians = {}
        for key, name in named.items():
            times = [row[key] for run in group.runs for row in run.rows if key in row and 0 <= row[key] < np.inf]
            if times:
                medians[name] = float(np.median(times))
        by_group.append(medians)
    return by_group


def finite(values: np.ndarray) -> list[float | None]:
    """Return plain numbers of six digits, with a gap (None) for each value that is not finite."""
    rounded = [float(f"{value:.6g}") if np.isfinite(value) else None for value in values]
    return [int(value) if value is not None and value.is_integer() and abs(value) < 1e15 else value for value in rounded]


def _drawn(values: np.ndarray) -> dict[str, Any]:
    return {"y": finite(values), "mode": "lines" if len(values) > 1 else "markers"}


def _in_order(curve: Curve) -> Curve:
    """Return a curve whose iterations increase; of several rows of one iteration, the last is kept."""
    at, values = curve
    iterations = at[STEPS[0]]
    _, last = np.unique(iterations[::-1], return_index=True)
    chosen = len(iterations) - 1 - last
    return {step: x[chosen] for step, x in at.items()}, values[chosen]


def _on(grid: np.ndarray, at: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the values at the grid's iterations, interpolated where there is no row."""
    places = np.searchsorted(at, grid).clip(max=len(at) - 1)
    return np.where(at[places] == grid, values[places], np.interp(grid, at, values))


def _thinned(items: np.ndarray, points: int) -> np.ndarray:
    return items[np.unique(np.linspace(0, len(items) - 1, min(len(items), points)).round().astype(int))]
