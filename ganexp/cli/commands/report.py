"""`ganexp report`: write one self-contained HTML page about runs."""

import argparse
import os
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

try:
    from plotly.offline import get_plotlyjs
except ModuleNotFoundError:
    sys.exit("Error: this needs plotly, which is not installed: pip install -e '.[report]'.")

from ganexp.cli.commands.pages import html
from ganexp.cli.commands.reporting import charts, comparing, parts, pictures, ranking
from ganexp.config.schema import ConfigError
from ganexp.logging import reading as runs
from ganexp.logging.documents import refuse_unwritable
from ganexp.logging.reading import Run

PICTURES = 240
"""The most pictures of one kind on a page, shared evenly by the runs; the newest one of each run is always shown."""
PARTS = Path(__file__).resolve().parent / "reporting"


def main(options: argparse.Namespace) -> Path:
    """Write the page and return its path."""
    given = [Path(os.path.realpath(folder)) for folder in options.folders]
    folders = list(dict.fromkeys(found for folder in given for found in runs.find(folder)))
    if not folders:
        raise ConfigError(
            f"{', '.join(map(str, options.folders))} holds no run; name a run's folder or a sweep's below outputs/."
        )
    output: Path = options.output or options.folders[0] / "report.html"
    refuse_unwritable(output)
    title = given[0].name if len(set(given)) == 1 else f"{len(folders)} runs"
    found = [runs.read(folder) for folder in folders]
    ranked = _ranked(given, found, options.metric or ranking.metric_of(given), options.direction)
    html.write(output, page(found, title, ranked))
    print(f"Written to {output}")
    return output


def page(found: Sequence[Run], title: str, ranked: str = "") -> str:
    """Return the page, given the HTML of its ranking section."""
    groups = comparing.grouped(found)
    drawn = [group for group in groups if any(run.rows for run in group.runs)]
    names = comparing.folder_names(found)
    shown = [pictures.shown(run, PICTURES // len(found) or 1) for run in found]
    for run, own in zip(found, shown, strict=True):
        run.problems += own.problems
    keys = charts.chartable(found)
    figures = {key: charts.chart(key, drawn) for key in keys}
    sections = []
    for kind in dict.fromkeys(key for own in shown for key in own.frames):
        figured = [
            parts.pictures(f"{name}, {kind}", own.frames[kind], _number_of(run, drawn))
            for run, name, own in zip(found, names, shown, strict=True)
            if kind in own.frames
        ]
        sections.append(f'<h2>{escape(kind.capitalize())}</h2><div class="pictures">{"".join(figured)}</div>')
    averaged = any(len(group.runs) > 1 for group in drawn)
    body = [
        f"<h1>{escape(title)}</h1>",
        parts.overview(found),
        f"<section>{parts.slider(shown)}{''.join(sections)}</section>" if sections else "",
        ranked,
        parts.run_table(found, names),
        parts.all_differences(found, groups),
        f"<h2>Curves</h2>{parts.legend(drawn)}" if keys else "",
        f'<p class="note">{AVERAGED}</p>' if averaged else "",
        parts.places(keys, comparing.measures(found)),
        parts.bars(drawn, charts.phases(drawn)),
        f"<script>{get_plotlyjs()}</script>",
        f"<script>const figures = {html.for_script(figures)};\n{(PARTS / 'page.js').read_text()}</script>",
    ]
    return html.page(title, "\n".join(body))


AVERAGED = (
    "Lines are means over the runs of a group, bands reach from the lowest to the highest. "
    "Beyond the end of the shortest run, each longer one is drawn by itself, thinly."
)


def _ranked(given: Sequence[Path], found: Sequence[Run], metric: str | None, direction: str) -> str:
    if metric is None:
        return ""
    logged = {key for run in found for key in run.last}
    if metric not in logged and metric != ranking.metric_of(given):
        keys = ", ".join(sorted(logged)) or "none"
        raise ConfigError(f"--metric={metric} is in no row of these runs; choose one of {keys}.")
    return ranking.section(*ranking.rankings(given, found, comparing.grouped(found), metric, direction), metric)


def _number_of(run: Run, groups: Sequence[comparing.Group]) -> int:
    return next(number for number, group in enumerate(groups) if any(run is member for member in group.runs))
