"""`ganexp dynamics`: the eigenvalues of the game's Jacobian over a run, and how update rules would behave there."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from plotly.offline import get_plotlyjs
from tqdm import tqdm

from ganexp.cli.commands.dynamics import has_spectrum
from ganexp.cli.composing import compose
from ganexp.cli.pages import headings, html
from ganexp.config.assemble import plain_strategy_of
from ganexp.config.build import build
from ganexp.config.choices import Choice, choose
from ganexp.config.defaults import completed, option_files
from ganexp.config.plain import plain
from ganexp.config.untrusted import UNWATCHED
from ganexp.documents import write_text
from ganexp.dynamics import contraction, path_angle, spectrum, still
from ganexp.facts import UserError
from ganexp.logging import reading
from ganexp.logging.keys import eigenvalues_in
from ganexp.logging.layout import RunFolder
from ganexp.logging.reading import RecordedRun
from ganexp.training import checkpoint
from ganexp.training.callbacks.dynamics import figures

PLACES = [round(float(place), 3) for place in np.linspace(-0.25, 1.5, 36)]
"""Where the field is evaluated on the line from the first checkpoint (0) to the last one (1)."""


@dataclass
class Moment:
    """One iteration and its figures, keyed as in a row of the log."""

    iteration: int
    row: Mapping[str, Any]

    @property
    def eigenvalues(self) -> list[complex]:
        """The eigenvalues of the row, and their conjugates."""
        return eigenvalues_in(self.row)


def run(options: argparse.Namespace) -> Path:
    """Compute the spectrum of a run, write the page, and return its path."""
    folder = RunFolder(options.run.resolve())
    run = reading.read(folder.path)
    output: Path = options.output or options.run / "dynamics.html"
    choices = _choices(options.rules)
    moments = [Moment(int(row["progress/iteration"]), row) for row in run.rows if has_spectrum(row)]
    path: dict[str, Any] = {}
    if options.path or (len(moments) < 2 and (folder.numbered or not moments)):
        of_checkpoints, angles = _of_checkpoints(folder, options)
        path = _path(angles, of_checkpoints) if angles else {}
        moments = moments if len(moments) > len(of_checkpoints) else of_checkpoints
    largest = max((abs(eigenvalue) for eigenvalue in moments[-1].eigenvalues), default=0)
    if not largest:
        at = f"at iteration {moments[-1].iteration}"
        raise UserError(f"{folder.path} has no nonzero eigenvalue {at}, so rules cannot be compared: name another run.")
    rate = options.rate or 1 / largest
    rules = _rules(choices, moments[-1].eigenvalues, rate)
    write_text(output, page(run, moments, path, rules, rate))
    print(f"Written to {output}")
    return output


def _of_checkpoints(folder: RunFolder, options: argparse.Namespace) -> tuple[list[Moment], list[float | None]]:
    """Analyse the game at every checkpoint that a run has kept, and along the line from the first to the last."""
    files = folder.numbered
    moments, weights, trainer = [], [], None
    for file in tqdm(files, "checkpoints", disable=None):
        config = checkpoint.load(file)["config"]
        if not config:
            raise UserError(f"{file} is of a run without a configuration, from which its networks could be made.")
        longer = {"iterations": completed(config)["iterations"] + 1}  # a run that has done all its iterations is not resumed
        trainer = build(config | UNWATCHED | longer, checkpoint=file, trust=options.trust)
        x = next(trainer.reals)
        z = trainer.gan.prior.measured(len(x))
        x = x.split(len(z))[0]
        try:
            with still(trainer.gan, x, z) as field:
                moments.append(Moment(trainer.iteration, figures(spectrum(field))))
        except ValueError as error:
            raise UserError(f"{file} has no spectrum: {error}.") from error
        weights.append([parameter.detach().clone() for parameter in (*trainer.gan.d_parameters, *trainer.gan.g_parameters)])
    if trainer is None or len(weights) < 2:
        return moments, []
    gan = trainer.gan

    def v() -> Sequence[Any]:
        with still(gan, x, z) as field:
            return field.vector

    return moments, path_angle(gan, weights[0], weights[-1], PLACES, v)  # type: ignore[arg-type]


def _choices(names: Sequence[str]) -> dict[str, Choice]:
    """Return strategies with their default settings, by name: all of them, if none are named."""
    named = names or option_files("strategy")
    return {name: choose("strategy", plain(compose(f"strategy={name}").strategy)) for name in named}


def _rules(choices: Mapping[str, Choice], eigenvalues: Sequence[complex], rate: float) -> dict[str, list[float | None]]:
    """Return by what factor each rule multiplies the distance per iteration, by eigenvalue; None if a rule does not apply."""
    upper = [eigenvalue for eigenvalue in eigenvalues if eigenvalue.imag >= 0]
    rules: dict[str, list[float | None]] = {}
    for name, choice in tqdm(choices.items(), "rules", disable=None):
        factors: list[float | None] = []
        for eigenvalue in upper:
            try:
                factors.append(contraction(plain_strategy_of(choice), [eigenvalue], rate))
            except (ValueError, ArithmeticError, RuntimeError):
                factors.append(None)
        if any(factor is not None for factor in factors):
            rules[name] = factors
    return rules


def page(
    run: RecordedRun,
    moments: Sequence[Moment],
    path: Mapping[str, Any],
    rules: Mapping[str, Sequence[float | None]],
    rate: float,
) -> str:
    """Return the page."""
    title = headings.heading([run], run.folder.name)
    losses = _losses(run.rows, moments)
    charts: dict[str, Mapping[str, Any]] = {"plane": _plane(moments), "losses": losses, "ends": _ends(moments)}
    if path:
        charts["path"] = path
    upper = [eigenvalue for eigenvalue in moments[-1].eigenvalues if eigenvalue.imag >= 0]
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, factors in rules.items():
        alike.setdefault(tuple(map(_factor, factors)), []).append(name)
    lines = (
        f"<tr>{html.cell(escape(', '.join(names)))}{''.join(map(html.cell, factors))}</tr>" for factors, names in alike.items()
    )
    table = html.table(["rule", *(f"λ = {_written(eigenvalue)}" for eigenvalue in upper)], lines)
    places = "".join(f'<div class="chart" id="{name}"></div>' for name in charts)
    body = [
        f"<h1>{escape(title)}: dynamics</h1>",
        headings.section([run]),
        f'<p class="note">{EXPLAINED}</p><div class="charts">{places}</div>',
        f"<h2>Update rules at iteration {moments[-1].iteration:,}, with plain descent at a rate of {rate:.3g}</h2>",
        f'<p class="note">{RULES}</p>{table}',
        f"<script>{get_plotlyjs()}</script>",
        f"<script>const charts = {html.for_script(charts)};\n{SCRIPT}</script>",
    ]
    return html.page(f"{title}: dynamics", "\n".join(body), STYLE)


EXPLAINED = (
    "Each dot is an eigenvalue λ of the Jacobian of both players' gradients: those of the largest modulus and those with the "
    "smallest real part. To the right of the vertical axis the game attracts, to the left it repels; far above and below the "
    "horizontal axis it rotates. The slider moves through the run."
)
RULES = (
    "By what factor an iteration multiplies the distance from an equilibrium on the game of two numbers that has this "
    "eigenvalue and its conjugate, measured over 100 iterations of the rule itself. Below 1 it contracts."
)
STYLE = ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(340px,1fr));gap:12px}.chart{height:360px}"
SCRIPT = """for (const [name, chart] of Object.entries(charts)) {
  Plotly.newPlot(name, chart.data, chart.layout, {displayModeBar: false, responsive: true})
    .then((plot) => chart.frames && Plotly.addFrames(plot, chart.frames));
}"""
FONT = {"family": "system-ui, sans-serif", "size": 11}


def _layout(title: str, x: str, y: str, **further: Any) -> dict[str, Any]:
    grid = {"gridcolor": "#e8e8e8", "zerolinecolor": "#888", "automargin": True}
    return {
        "title": {"text": title, "font": {"size": 13}},
        "margin": {"l": 50, "r": 10, "t": 36, "b": 40},
        "xaxis": {**grid, "title": {"text": x}},
        "yaxis": {**grid, "title": {"text": y}},
        "font": FONT,
        "legend": {"orientation": "h", "y": -0.24, "yanchor": "top"},
        **further,
    }


def _plane(moments: Sequence[Moment]) -> dict[str, Any]:
    """Return a chart of eigenvalues in the complex plane, with a frame for each analysed iteration; the axes stay the same."""
    real = [eigenvalue.real for moment in moments for eigenvalue in moment.eigenvalues]
    imag = [abs(eigenvalue.imag) for moment in moments for eigenvalue in moment.eigenvalues]
    room = 0.08 * max(max(real) - min(0, min(real)), 2 * max(imag), 1e-12)
    layout = _layout("Eigenvalues of the game", "Re λ", "Im λ")
    layout["xaxis"]["range"] = [min(0, min(real)) - room, max(real) + room]
    layout["yaxis"]["range"] = [-max(imag) - room, max(imag) + room]
    frames = [{"name": f"{moment.iteration:,}", "data": [_dots(moment)]} for moment in moments]
    step = [{"mode": "immediate", "frame": {"duration": 0, "redraw": False}, "transition": {"duration": 0}}]
    steps = [{"label": frame["name"], "method": "animate", "args": [[frame["name"]], *step]} for frame in frames]
    layout["sliders"] = [{"active": len(steps) - 1, "steps": steps, "currentvalue": {"prefix": "iteration "}, "pad": {"t": 45}}]
    return {"data": [_dots(moments[-1])], "layout": layout, "frames": frames}


def _dots(moment: Moment) -> dict[str, Any]:
    eigenvalues = moment.eigenvalues
    real, imag = [eigenvalue.real for eigenvalue in eigenvalues], [eigenvalue.imag for eigenvalue in eigenvalues]
    return {"type": "scatter", "mode": "markers", "x": real, "y": imag}


def _losses(rows: Iterable[Mapping[str, Any]], moments: Sequence[Moment]) -> dict[str, Any]:
    kept = [row for row in rows if np.isfinite(row.get("loss/d", np.nan)) and np.isfinite(row.get("loss/g", np.nan))]
    at = [row["progress/iteration"] for row in kept]
    data = [
        {"type": "scatter", "name": key[-1].upper(), "x": at, "y": [row[key] for row in kept]} for key in ("loss/d", "loss/g")
    ]
    iterations = [moment.iteration for moment in moments]
    lines = [{"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1} for x in iterations]
    marks = [{**line, "line": {"width": 0.5, "dash": "dot", "color": "#999"}} for line in lines]
    return {"data": data, "layout": _layout("Losses", "iterations", "", shapes=marks)}


def _ends(moments: Sequence[Moment]) -> dict[str, Any]:
    names = {"smallest Re λ": "smallest_real", "smallest of D's block": "d_smallest", "smallest of G's block": "g_smallest"}
    at = [moment.iteration for moment in moments]
    data = [
        {"type": "scatter", "name": name, "x": at, "y": [moment.row.get(f"dynamics/{key}") for moment in moments]}
        for name, key in names.items()
        if any(f"dynamics/{key}" in moment.row for moment in moments)
    ]
    none = "No smallest found: raise dynamics.products"
    return {
        "data": data,
        "layout": _layout("Smallest eigenvalues: below 0, not a local minimum" if data else none, "iterations", ""),
    }


def _path(angles: Sequence[float | None], moments: Sequence[Moment]) -> dict[str, Any]:
    data = [{"type": "scatter", "mode": "lines", "x": PLACES, "y": list(angles)}]
    way = f"from iteration {moments[0].iteration:,} (0) to {moments[-1].iteration:,} (1)"
    return {"data": data, "layout": _layout("Path angle: cosine of −v with the line from start to end", way, "")}


def _written(eigenvalue: complex) -> str:
    return f"{eigenvalue.real:.3g}" + (f" ± {eigenvalue.imag:.3g}i" if eigenvalue.imag else "")


def _factor(factor: float | None) -> str:
    return "–" if factor is None else f"{factor:.3f}" if np.isfinite(factor) else "diverges"
