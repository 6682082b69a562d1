"""Write one self-contained HTML page about runs: what differs, curves, samples over time, timings.

    python scripts/report.py outputs/2026-11-21_08-00-00_multirun
    python scripts/report.py outputs/2026-11-21_08-00-00_digits_hinge_joint_seed0 outputs/latest --output comparison.html

A folder is a run's or a sweep's. Runs that differ in nothing but the seed are averaged, in a band from the lowest to the
highest. Broken, failed and unfinished runs are shown as such, with whatever can be read of them.
"""

import argparse
import base64
import html
import io
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from PIL import Image
from plotly.colors import qualitative  # type: ignore[attr-defined]
from plotly.offline import get_plotlyjs

from ganexp.logbook import runs
from ganexp.logbook.keys import KEYS, STEPS
from ganexp.logbook.runs import Run

POINTS = 400
"""A curve has at most so many points: of long runs, evenly spaced rows are shown."""
PICTURES = 240
"""So many pictures at most in one page, shared evenly by the runs; the newest one of a run is always there."""
AXES = dict(zip(STEPS, ("iterations", "real images", "seconds"), strict=True))
HIDDEN = ("wandb.", "sweep.", "log_every", "sample_every", "checkpoint_every", "device", "data_root", "workers")
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; font-size: 0.85rem; }
th, td { border: 1px solid #ddd; padding: 0.25rem 0.6rem; text-align: left; vertical-align: top; }
th { background: #f6f6f6; }
.scroll { overflow-x: auto; }
.finished { color: #2a7d3f; } .failed, .problem { color: #b3362b; } .unfinished, .skipped { color: #8a5a00; }
.charts, .samples { display: grid; grid-template-columns: repeat(auto-fill, minmax(26rem, 1fr)); gap: 1rem; }
.chart { height: 21rem; min-width: 0; }
figure { margin: 0; } figcaption { font-size: 0.85rem; } figure img { width: 100%; image-rendering: pixelated; }
input[type=range] { width: 100%; }
"""
SCRIPT = """
for (const chart of document.querySelectorAll('.chart')) {
  const figure = figures[chart.dataset.figure];
  const show = () => Plotly.newPlot(chart, figure.data, figure.layout, {responsive: true, displaylogo: false});
  new IntersectionObserver((seen, watch) => { if (seen[0].isIntersecting) { watch.disconnect(); show(); } }).observe(chart);
}
for (const figure of document.querySelectorAll('figure')) {
  const slider = figure.querySelector('input'), image = figure.querySelector('img'), told = figure.querySelector('output');
  const frames = JSON.parse(figure.querySelector('script').textContent);
  const turn = () => { const [at, source] = frames[slider.value]; image.src = source; told.textContent = 'iteration ' + at; };
  slider.addEventListener('input', turn);
  turn();
}
document.querySelector('#axis').addEventListener('change', (event) => {
  for (const [name, figure] of Object.entries(figures)) {
    if (!figure.axes) continue;
    figure.data.forEach((trace, i) => { trace.x = figure.axes[event.target.value][i]; });
    figure.layout.xaxis.title.text = event.target.value;
    const chart = document.querySelector(`[data-figure="${name}"]`);
    if (chart.data) Plotly.react(chart, figure.data, figure.layout);
  }
});
"""


@dataclass
class Group:
    """Runs that differ in nothing but the seed."""

    name: str
    color: str
    runs: list[Run]


def main(arguments: Sequence[str] | None = None) -> Path:
    """Write the page and return its path."""
    options = _parser().parse_args(arguments)
    folders = list(dict.fromkeys(folder for given in options.folders for folder in runs.find(given.resolve())))
    if not folders:
        sys.exit(
            f"Error: {', '.join(map(str, options.folders))} holds no run; name a run's folder or a sweep's below outputs/."
        )
    output: Path = options.output or options.folders[0] / "report.html"
    output.write_text(page([runs.read(folder) for folder in folders], title=options.folders[0].resolve().name))
    print(f"Written to {output}")
    return output


def page(found: Sequence[Run], title: str) -> str:
    """Return the page."""
    settings = differing([run.config for run in found])
    groups = grouped(found, settings)
    charts = {key: chart(key, groups) for key in chartable(found)}
    timings = bars(groups)
    figures = {**charts, **({"timings": timings} if timings else {})}
    options = "".join(f"<option>{words}</option>" for words in AXES.values())
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f'<div class="scroll">{run_table(found, settings)}</div>',
        f'<h2>Curves</h2><p>Over <select id="axis">{options}</select> · bands reach from the lowest to the highest seed · '
        "click a name to hide it</p>",
        f'<div class="charts">{"".join(_place(key) for key in charts)}</div>',
        "<h2>Timings</h2>" + _place("timings") if timings else "",
        f'<h2>Samples</h2><div class="samples">{"".join(slider(run, PICTURES // len(found) or 1) for run in found)}</div>',
        f"<script>{get_plotlyjs()}</script>",
        f"<script>const figures = {_for_script(figures)};\n{SCRIPT}</script>",
    ]
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def differing(configs: Sequence[dict[str, Any]]) -> list[str]:
    """Return the keys whose values are not the same in all configurations."""
    flat = [dict(flattened(config)) for config in configs]
    keys = dict.fromkeys(key for config in flat for key in config)
    names = {key for key in keys if key.endswith("_target_") or key.startswith(HIDDEN)}
    return [key for key in keys if key not in names and len({str(config.get(key)) for config in flat if config}) > 1]


def flattened(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested values under dotted keys; the name of a group's option stands under the group."""
    for key, value in config.items():
        path = prefix.rstrip(".") if key == "name" and prefix and not prefix.startswith("wandb") else prefix + key
        if isinstance(value, dict):
            yield from flattened(value, f"{path}.")
        else:
            yield path, value


def grouped(found: Sequence[Run], settings: Sequence[str]) -> list[Group]:
    """Put runs together that differ in the seed alone."""
    groups: dict[str, list[Run]] = {}
    for run in found:
        values = dict(flattened(run.config))
        shown = [f"{key.rpartition('.')[2]}={values.get(key)}" for key in settings if key != "seed"]
        groups.setdefault((", ".join(shown) or "all runs") if run.config else run.folder.name, []).append(run)
    colors = qualitative.D3 + qualitative.Set2 + qualitative.Dark2
    return [Group(name, colors[i % len(colors)], members) for i, (name, members) in enumerate(groups.items())]


def chartable(found: Sequence[Run]) -> list[str]:
    """Return the keys that have a curve, known ones first, in their own order."""
    present = dict.fromkeys(
        key for run in found for row in run.rows for key, value in row.items() if isinstance(value, (int, float))
    )
    return [
        key
        for key in [*KEYS, *(key for key in present if key not in KEYS)]
        if key in present and not key.startswith("progress/")
    ]


def chart(key: str, groups: Sequence[Group]) -> dict[str, Any]:
    """Return a chart of one key, with its values over each of the three axes."""
    figure = go.Figure(layout={"title": key, "margin": {"l": 55, "r": 10, "t": 40, "b": 45}, "template": "plotly_white"})
    axes: dict[str, list[list[float | None]]] = {words: [] for words in AXES.values()}
    for group in groups:
        steps, values = averaged(group.runs, key)
        if not len(values):
            continue
        middle, (low, high) = _mean(values), _range(values)
        line = {"color": group.color, "width": 1.5}
        several = len(values) > 1
        if several:
            band = [*high, *low[::-1]]
            figure.add_scatter(
                y=band, fill="toself", fillcolor=group.color, opacity=0.15, line={"width": 0}, legendgroup=group.name
            )
            figure.data[-1].update(showlegend=False, hoverinfo="skip")
        name = f"{group.name} ({len(values)} seeds)" if several else group.name
        figure.add_scatter(y=middle, name=name, line=line, legendgroup=group.name, showlegend=len(groups) > 1)
        for step, words in AXES.items():
            x = _finite(steps[step])
            axes[words] += [[*x, *x[::-1]], x] if several else [x]
    for trace, x in zip(figure.data, axes["iterations"], strict=True):
        trace.x = x
    figure.update_layout(xaxis_title="iterations", legend={"orientation": "h", "y": -0.25, "font": {"size": 10}})
    return {**json.loads(figure.to_json()), "axes": axes}


def averaged(found: Sequence[Run], key: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the steps of a group of runs and their values of one key, `(runs, steps)`, as far as the shortest one goes."""
    series = [[(row, row[key]) for row in run.rows if isinstance(row.get(key), (int, float))] for run in found]
    series = [rows for rows in series if rows]
    if not series:
        return {}, np.empty((0, 0))
    length = min(len(rows) for rows in series)
    chosen = np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(int))
    at = {step: np.array([np.mean([rows[i][0].get(step, np.nan) for rows in series]) for i in chosen]) for step in AXES}
    return at, np.array([[rows[i][1] for i in chosen] for rows in series], dtype=float)


def bars(groups: Sequence[Group]) -> dict[str, Any]:
    """Return the median time of each phase of an iteration, by group."""
    phases = {"time/data_ms": "data", "time/d_ms": "D", "time/g_ms": "G"}
    figure = go.Figure(layout={"barmode": "stack", "template": "plotly_white", "margin": {"l": 10, "t": 40, "b": 45}})
    for key, name in phases.items():
        medians = [_median([row[key] for run in group.runs for row in run.rows if key in row]) for group in groups]
        figure.add_bar(x=medians, y=[group.name for group in groups], name=name, orientation="h")
    figure.update_layout(xaxis_title="milliseconds per iteration, medians of all rows", yaxis_automargin=True)
    figure.update_layout(legend={"orientation": "h", "y": 1.15})
    timed = any("time/iteration_ms" in row for group in groups for run in group.runs for row in run.rows)
    return json.loads(figure.to_json()) if timed else {}


def run_table(found: Sequence[Run], settings: Sequence[str]) -> str:
    """Return the table of runs."""
    metrics = [key for key in ("loss/d", "loss/g", "began/k_t", "began/convergence") if any(key in run.last for run in found)]
    metrics += dict.fromkeys(key for run in found for key in run.last if key.startswith("eval/"))
    header = ["run", "state", *settings, *metrics, "iterations", "real images", "seconds", "commit"]
    lines = []
    for run in found:
        values, last = dict(flattened(run.config)) or run.overrides, run.last
        error = str(run.summary.get("error", ""))
        problems = [*([error] if error else []), *run.problems[:3]]
        problems += [f"and {len(run.problems) - 3} more"] * (len(run.problems) > 3)
        told = "".join(f'<div class="problem">{html.escape(problem)}</div>' for problem in problems)
        state = f'<span class="{html.escape(run.state)}">{html.escape(run.state)}</span>'
        numbers = [last.get(key) for key in (*metrics, *STEPS)]
        cells = [html.escape(run.folder.name), state + told, *(html.escape(str(values.get(key, ""))) for key in settings)]
        commit = (runs.read_document(run.folder / "provenance.json").get("git") or {}).get("commit", "")[:8]
        cells += ["" if number is None else _number(number) for number in numbers] + [html.escape(commit)]
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table><tr>{''.join(f'<th>{html.escape(cell)}</th>' for cell in header)}</tr>{''.join(lines)}</table>"


def slider(run: Run, most: int) -> str:
    """Return a run's sample grids over time behind a slider, or nothing if it has none."""
    rows = [row for row in run.rows if isinstance(row.get("samples"), str)]
    found = [(row["progress/iteration"], run.folder / row["samples"]) for row in rows]
    chosen = sorted({round(i) for i in np.linspace(len(found) - 1, 0, min(len(found), most))})
    frames = [(at, source) for at, file in (found[i] for i in chosen) if (source := _inlined(file))]
    if not frames:
        return ""
    last = len(frames) - 1
    return (
        f"<figure><figcaption>{html.escape(run.folder.name)} · <output></output></figcaption>"
        f'<img alt="samples of {html.escape(run.folder.name)}" src="{frames[-1][1]}">'
        f'<input type="range" min="0" max="{last}" value="{last}"{" hidden" if not last else ""}>'
        f'<script type="application/json">{_for_script(frames)}</script></figure>'
    )


def _inlined(file: Path) -> str:
    """Return a picture as part of the page, or nothing if it cannot be read."""
    try:
        with Image.open(file) as image:
            image.load()
            small = (
                image.convert("RGB")
                if max(image.size) <= 700
                else image.convert("RGB").resize((700, 700 * image.height // image.width))
            )
    except OSError:
        return ""
    buffer = io.BytesIO()
    small.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _place(figure: str) -> str:
    return f'<div class="chart" data-figure="{html.escape(figure)}"></div>'


def _for_script(values: object) -> str:
    return json.dumps(values, allow_nan=False).replace("</", "<\\/")


def _mean(values: np.ndarray) -> list[float | None]:
    return _finite(values.mean(0))


def _range(values: np.ndarray) -> tuple[list[float | None], list[float | None]]:
    return _finite(values.min(0)), _finite(values.max(0))


def _finite(values: np.ndarray) -> list[float | None]:
    """Return plain numbers, with a gap for what is none."""
    return [float(value) if np.isfinite(value) else None for value in values]


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="folders of runs or sweeps")
    parser.add_argument("--output", type=Path, help="the page; report.html in the first folder otherwise")
    return parser


if __name__ == "__main__":
    main()
