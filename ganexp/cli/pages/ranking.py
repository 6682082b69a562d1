"""The ranking of combinations as HTML: tables with each seed and interval drawn, and how they were made."""

from collections.abc import Sequence
from html import escape

from ganexp.cli.pages import comparing, html
from ganexp.compare import outcomes
from ganexp.compare.ranking import MARKS, Place, Ranking, notes
from ganexp.logging.reading import RecordedRun

WIDTH, HEIGHT, MARGIN = 200, 16, 5
"""Dimensions of a drawn interval, in pixels."""


def rankings(runs: Sequence[RecordedRun], metric: str, direction: str) -> tuple[list[Ranking], str]:
    """Return rankings by a key of the rows, and which values are best; runs that differ only in the seed form one group."""
    combinations = {id(run): group.name for group in comparing.grouped(runs) for run in group.runs}
    names = comparing.folder_names(runs)
    return outcomes.rankings(runs, names, [combinations[id(run)] for run in runs], metric, direction)


def section(rankings: Sequence[Ranking], best: str, metric: str) -> str:
    """Return the rankings, each as a table below a line on how its figures were measured, and the notes on all."""
    parts = [f"<h2>Ranked by {escape(metric)}, {best} first</h2>"]
    for ranking in rankings:
        if not any(place.values for place in ranking.places):
            parts.append(f"<p>Nothing to rank: no finished run has a finite {escape(metric)} in its last row.</p>")
            continue
        parts += [f"<p>{escape(ranking.basis)}</p>"] if ranking.basis else []
        values = [value for place in ranking.places for value in place.values.values()]
        lines = (_line(place, (min(values), max(values))) for place in ranking.places)  # intervals lie between them
        parts.append(html.table(("", "combination", "seeds", f"{metric} [95 %]", "p", ""), lines, "ranking"))
    return "".join([*parts, *(f'<p class="note">{escape(note)}</p>' for note in notes(rankings))])


def _line(place: Place, span: tuple[float, float]) -> str:
    cells = [MARKS.get(place.standing, ""), place.combination, place.seeds, place.figure, place.verdict]
    kinds = ("", "name", "number", "number", "number")
    html_cells = "".join(html.cell(escape(cell), kind) for kind, cell in zip(kinds, cells, strict=True))
    return f'<tr class="{place.standing.replace(" ", "-")}">{html_cells}<td>{_drawn(place, span)}</td></tr>'


def _drawn(place: Place, span: tuple[float, float]) -> str:
    """Return the interval as a bar, with a line at the mean and a dot for each seed."""
    if not place.values:
        return ""
    low, high = span
    scale = (WIDTH - 2 * MARGIN) / (high - low) if high > low else 0.0

    def at(value: float) -> str:
        return f"{MARGIN + (value - low) * scale:.1f}"

    middle = HEIGHT / 2
    ends = (place.interval.low, place.interval.high) if place.interval else (place.mean, place.mean)
    bar = f'<path d="M{at(ends[0])} {middle}H{at(ends[1])}" stroke-width="{HEIGHT / 2}" opacity="0.25"/>'
    line = f'<path d="M{at(place.mean)} 1V{HEIGHT - 1}" stroke-width="2"/>'
    dots = "".join(f'<circle cx="{at(value)}" cy="{middle}" r="2.2"/>' for value in place.values.values())
    return f'<svg width="{WIDTH}" height="{HEIGHT}" aria-hidden="true">{bar}{line}{dots}</svg>'
