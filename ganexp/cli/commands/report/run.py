"""`ganexp report`: write one self-contained HTML page about runs. Every text that comes from a run is escaped here."""

import argparse
import base64
import gzip
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from ganexp.cli.commands.report import charts, figures, pictures
from ganexp.cli.pages import comparing, headings, html, ranking
from ganexp.cli.pages.citing import bibtex
from ganexp.cli.sweeping import Results, Sweep
from ganexp.compare import outcomes
from ganexp.documents import write_text
from ganexp.facts import UserError
from ganexp.instruments.scalar import Scalar
from ganexp.logging import meanings
from ganexp.logging import reading as runs
from ganexp.logging.keys import STEPS, known
from ganexp.logging.layout import RunFolder
from ganexp.logging.reading import RecordedRun

PICTURES = 240
"""The most pictures of one kind on a page, shared evenly by the runs; the newest one of each run is always shown."""
BYTES, LEAST_BYTES = 2_850_000, 200_000
"""How many bytes a page should have, and how many its pictures have at least."""
POINTS, LEAST_POINTS = 6_000, 30
"""How many points all curves have together, and how many each has at least."""
FIRST = 9
"""How many curves are not folded away."""
SCRIPT = Path(__file__).with_name("page.js")
STATES = ("finished", "failed", "unfinished", "preempted", "skipped")


def run(options: argparse.Namespace) -> Path:
    """Write the page and return its path."""
    places = [Path(os.path.realpath(folder)) for folder in options.folders]
    folders = list(dict.fromkeys(recorded for folder in places for recorded in runs.find(folder)))
    output: Path = options.output or options.folders[0] / "report.html"
    recorded = [runs.read(folder) for folder in folders]
    title = headings.heading(recorded, places[0].name if len(set(places)) == 1 else "various")
    ranked = _ranked(places, recorded, options.metric, options.direction)
    write_text(output, page(recorded, title, ranked, options.metric or _own_metric(places)))
    print(f"Written to {output}")
    if options.pictures:
        count = figures.write(recorded, options.pictures)
        print(f"{count} curves, each as PNG and as SVG, in {options.pictures}")
    return output


def page(recorded: Sequence[RecordedRun], title: str, ranked: str = "", metric: str | None = None) -> str:
    """Return the page, places the HTML of its ranking section and the key that it ranks by."""
    groups = comparing.grouped(recorded)
    drawn = [group for group in groups if any(run.rows for run in group.runs)]
    names = comparing.folder_names(recorded)
    captions = comparing.captions(recorded, groups)
    keys = charts.chartable(recorded)
    points = min(charts.POINTS, max(LEAST_POINTS, POINTS // max(1, len(keys) * len(drawn))))
    curves = html.for_script({key: charts.chart(key, drawn, points) for key in keys})
    plotly = base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()
    shown = pictures.shown(recorded, PICTURES, max(LEAST_BYTES, BYTES - len(curves) - len(plotly)))
    for run, own in zip(recorded, shown, strict=True):
        run.problems += own.problems
    sections = []
    for kind in dict.fromkeys(key for own in shown for key in own.frames):
        there = [
            (run, name, own.frames[kind])
            for run, name, own in zip(recorded, captions, shown, strict=True)
            if kind in own.frames
        ]
        if kind == pictures.SHARED:
            alike: dict[str, list[RecordedRun]] = {}
            for run, _, frames in there:
                alike.setdefault(html.for_script(frames), []).append(run)
            figured = [_pictured(_shared_by(runs), kind, json.loads(frames)) for frames, runs in alike.items()]
        else:
            figured = [_pictured(caption, kind, frames, _number_of(run, drawn)) for run, caption, frames in there]
        sections.append(f'<h2>{escape(kind.capitalize())}</h2><div class="pictures">{"".join(figured)}</div>')
    first = [key for key in keys if key.startswith(("eval/", "loss/d", "loss/g")) or key == metric][:FIRST] or keys[:FIRST]
    told = comparing.measures(recorded)
    averaged = any(len(group.runs) > 1 for group in drawn)
    body = [
        f"<h1>{escape(title)}</h1>",
        headings.section(recorded),
        _overview(recorded),
        ranked,
        "".join(f'<p class="note">{escape(one)}</p>' for one in outcomes.of_one_algorithm(recorded)),
        f"<h2>Curves</h2>{_legend(drawn)}" if keys else "",
        f'<p class="note">{AVERAGED}</p>' if averaged else "",
        _places(first, told),
        _folded(f"{len(keys) - len(first)} further curves", _places([key for key in keys if key not in first], told)),
        f"<section>{_slider(shown)}{''.join(sections)}</section>" if sections else "",
        _run_table(recorded, names),
        _all_differences(recorded, groups),
        _bars(drawn, charts.phases(drawn)),
        f"<h2>To cite</h2><pre>{escape(bibtex([run.config for run in recorded], [run.folder for run in recorded]))}</pre>",
        f'<script type="text/plain" id="plotly">{plotly}</script>',
        f"<script>const figures = {curves};\n{SCRIPT.read_text('utf-8')}</script>",
    ]
    return html.page(title, "\n".join(body))


def _shared_by(recorded: Sequence[RecordedRun]) -> str:
    """Return a caption for a picture that runs have in common."""
    seeds = sorted({str(run.config.get("seed")) for run in recorded})
    runs = f"{len(recorded)} runs" if len(recorded) > 1 else comparing.folder_names(recorded)[0]
    return f"{runs}, seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}"


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>{content}</details>" if content else ""


AVERAGED = (
    "Lines are means over the runs of a group, bands reach from the lowest to the highest. "
    "Beyond the end of the shortest run, each longer one is drawn by itself, thinly."
)


def _ranked(places: Sequence[Path], recorded: Sequence[RecordedRun], asked: str | None, direction: str) -> str:
    """Return the ranking by a key, or of one sweep alone by its own metric; what is missing of a sweep is listed too."""
    own = _own_metric(places)
    metric = asked or own
    if metric is None:
        return ""
    logged = {key for run in recorded for key in run.last}
    if metric not in logged and metric != own:
        keys = ", ".join(sorted(logged)) or "none"
        raise UserError(f"--metric={metric} is in no row of these runs; choose one of {keys}.")
    try:
        of_sweep = len(places) == 1 and Sweep.find(places[0]) is not None
        ranked = (
            Results.read(places[0]).rankings(metric, direction) if of_sweep else ranking.rankings(recorded, metric, direction)
        )
    except UserError as error:
        if asked:
            raise
        return f"<p>Not ranked: {escape(str(error))}.</p>"
    return ranking.section(*ranked, metric)


def _own_metric(places: Sequence[Path]) -> str | None:
    """Return the metric of one sweep alone."""
    sweep = Sweep.find(places[0]) if len(places) == 1 else None
    return sweep.metric if sweep else None


def _number_of(run: RecordedRun, groups: Sequence[comparing.Group]) -> int:
    return next(number for number, group in enumerate(groups) if any(run is member for member in group.runs))


def _overview(recorded: Sequence[RecordedRun]) -> str:
    """Return one line: how many runs there are, in which states, and how many are damaged; of one run, how it ended."""
    states = Counter(run.state if run.state in STATES else "in an unknown state" for run in recorded)
    damaged = sum(bool(run.problems) for run in recorded)
    said = [f"{count} {state}" for state, count in states.items()] + [f"{damaged} damaged"] * bool(damaged)
    if len(recorded) == 1:
        return f"<p>State: {next(iter(states))}{', damaged' * bool(damaged)}.</p>"
    return f"<p>{len(recorded)} runs: {', '.join(said)}.</p>"


def _run_table(recorded: Sequence[RecordedRun], names: Sequence[str]) -> str:
    """Return the table of runs: what tells them apart, how they ended, and what is wrong with them."""
    lasts = [run.last for run in recorded]
    metrics = [key for key in ("loss/d", "loss/g", *comparing.measures(recorded)) if any(key in last for last in lasts)]
    metrics = list(dict.fromkeys([*metrics, *(key for last in lasts for key in last if key.startswith("eval/"))]))
    differing = comparing.differing(recorded)
    told = [key for key in comparing.SUBJECT if key in differing]
    told += [key for key in comparing.telling(recorded) if key not in told] + ["seed"] * ("seed" in differing)
    header = ["run", "state", *told, *metrics, "iterations", "real images", "seconds", "commit"]
    lines = []
    for run, name, last in zip(recorded, names, lasts, strict=True):
        values = comparing.settings(run) or run.overrides
        problems = [one for one in [run.summary.get("error")] if one] + run.problems[:3]
        problems += [f"and {len(run.problems) - 3} more"] * (len(run.problems) > 3)
        state = f'<span class="{run.state if run.state in STATES else "problem"}">{escape(comparing.shown(run.state))}</span>'
        state += "".join(f'<div class="problem">{escape(comparing.shown(one, 400))}</div>' for one in problems)
        cells = [html.cell(html.name(name), "name"), html.cell(state)]
        cells += [html.cell(escape(comparing.shown(values[key])) if key in values else "") for key in told]
        cells += [html.cell(_number(last[key]) if key in last else "", "number") for key in (*metrics, *STEPS)]
        lines.append(f"<tr>{''.join(cells)}{html.cell(escape(_commit(run)))}</tr>")
    return f"<h2>Runs</h2>{html.table(header, lines)}"


def _all_differences(recorded: Sequence[RecordedRun], groups: Sequence[comparing.Group]) -> str:
    """Return a folded table of every key in which groups differ, one column per group; empty if their names already show it."""
    told = comparing.telling(recorded)
    keys = [key for key in comparing.differing(recorded) if key != "seed" and (key in told or not comparing.is_target(key))]
    if not set(keys) - set(told):
        return ""
    columns = [(group.name, comparing.settings(group.runs[0])) for group in groups if group.runs[0].config]
    lines = []
    for key in keys:
        values = (comparing.shown(own[key]) if key in own else "–" for _, own in columns)
        lines.append(f"<tr><th>{escape(key)}</th>" + "".join(html.cell(escape(value)) for value in values) + "</tr>")
    table = html.table(["key", *(name for name, _ in columns)], lines)
    return f"<details><summary>All {len(keys)} settings in which they differ</summary>{table}</details>"


def _legend(groups: Sequence[comparing.Group]) -> str:
    """Return the page's one legend, in which groups are shown and hidden, and the choice of the axis."""
    keys = []
    for number, group in enumerate(groups):
        line = charts.style(number)
        stroke = f'stroke="{line["color"]}" stroke-width="3" stroke-dasharray="{charts.DASHES[line["dash"]]}"'
        drawn = f'<svg class="line" viewBox="0 0 32 10" preserveAspectRatio="none"><path d="M0 5h32" {stroke}/></svg>'
        size = f" ({group.size})" if group.size else ""
        keys.append(
            f'<button type="button" data-group="{number}" aria-pressed="true">{drawn}{escape(group.name + size)}</button>'
        )
    options = "".join(f"<option>{words}</option>" for words in meanings.AXES.values())
    return (
        f'<div class="legend"><label>Over <select id="axis">{options}</select></label> {"".join(keys * (len(keys) > 1))}</div>'
    )


def _places(keys: Sequence[str], measures: Mapping[str, Scalar]) -> str:
    """Return the elements for the charts, each below its key with its meaning, and how figures were measured below them all."""
    parts, told = [], known(measures)
    for key in keys:
        meaning, of_real = meanings.plain(told[key]) if key in told else ("", "")
        whole = told[key].meaning if key in told else ""
        head = f'<h3 title="{escape(whole)}">{escape(key)} <small>{escape(meaning + of_real)}</small></h3>'
        parts.append(f'<section>{head}<div class="chart" data-figure="{escape(key)}"></div></section>')
    figures = [(key, measures[key]) for key in keys if key in measures and measures[key].basis]
    notes = "".join(f"<li>{escape(one)}</li>" for one in meanings.sentences(figures))
    return f'<div class="charts">{"".join(parts)}</div>' + (f'<ul class="note">{notes}</ul>' if notes else "")


def _bars(groups: Sequence[comparing.Group], times: Sequence[dict[str, float]]) -> str:
    """Return the phases of an iteration as bars, one per group; empty if none was timed."""
    timed = [(number, group, medians) for number, (group, medians) in enumerate(zip(groups, times, strict=True)) if medians]
    if not timed:
        return ""
    longest = max(_whole(medians) for _, _, medians in timed) or 1.0
    lines = []
    for number, group, medians in timed:
        parts = {name.lower(): medians.get(name, 0.0) for name in ("data", "D", "G")}
        parts["other"] = max(0.0, _whole(medians) - sum(parts.values()))
        drawn = "".join(f'<i class="{name}" style="width:{80 * ms / longest:.2f}%"></i>' for name, ms in parts.items())
        lines.append(
            f'<div data-of="{number}">{escape(group.name)}</div>'
            f'<div class="bar" data-of="{number}">{drawn}<b>{_whole(medians):.3g} ms</b></div>'
        )
    names = {"data": "waiting for data", "d": "D", "g": "G, every generation included", "other": "the rest"}
    key = "".join(f'<i class="{name}"></i>{words}' for name, words in names.items())
    note = f'<p class="note phases">Milliseconds per iteration, medians of all rows: {key}</p>'
    return f'<h2>Timings</h2>{note}<div class="bars">{"".join(lines)}</div>'


def _slider(shown: Sequence[pictures.Shown]) -> str:
    """Return the one slider that sets the iteration of all pictures; empty if they are all of the same iteration."""
    iterations = sorted({at for one in shown for frames in one.frames.values() for at, _ in frames})
    last = len(iterations) - 1
    if last < 1:
        return ""
    ends = f'min="0" max="{last}" value="{last}" data-iterations="{iterations}"'
    words = '<label for="turn">Pictures at iteration <output id="turned"></output></label>'
    return f'<div class="turned">{words}<input type="range" id="turn" {ends}></div>'


def _pictured(caption: str, kind: str, frames: Sequence[tuple[int, str]], group: int | None = None) -> str:
    """Return pictures over time; the slider chooses the newest that is no later than the slider's iteration."""
    of = "" if group is None else f' data-of="{group}"'
    return (
        f"<figure{of}>"
        f'<img alt="{escape(caption)}, {escape(kind)}" src="{frames[-1][1]}">'
        f"<figcaption>{html.name(caption)} · <output></output></figcaption>"
        f'<script type="application/json">{html.for_script([*frames[:-1], (frames[-1][0], None)])}</script></figure>'
    )


def _whole(medians: dict[str, float]) -> float:
    return max(medians.get("all", 0.0), sum(ms for name, ms in medians.items() if name != "all"))


def _commit(run: RecordedRun) -> str:
    git = runs.read_document(RunFolder(run.folder).provenance).get("git")
    return str(git.get("commit", ""))[:8] if isinstance(git, dict) else ""


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
