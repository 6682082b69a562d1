"""The page of an evaluation: figures, and samples beside the training images that are nearest to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from PIL import Image
from torch import Tensor

from ganexp.cli.commands.evaluate.tables import Entry, Order, figure
from ganexp.cli.pages import html, ranking
from ganexp.logging.pictures import beside_the_nearest, image_grid, scatter, translations

WIDEST = 1400
"""Larger pictures are scaled down to this many pixels on the longer side."""


@dataclass
class NearestImages:
    """The real images nearest to an entry's first samples, `(n, k, …)`, with distances `(n, k)`; or real points."""

    reals: Tensor
    distances: Tensor | None = None
    where: str = ""
    yardstick: str = ""
    """How far training images are from the nearest others."""


def page(title: str, order: Order, nearest: Sequence[NearestImages | None], settings: str = "") -> str:
    """Return the page.

    Args:
        title: What it is called.
        order: The entries.
        nearest: One item per entry, None for an entry without pictures.
        settings: The settings that the runs share, as HTML.
    """
    entries = order.entries
    pictured = [_pictures(entry, own) for entry, own in zip(entries, nearest, strict=True) if entry.result and own]
    left = sum(entry.result is not None and own is None for entry, own in zip(entries, nearest, strict=True))
    notes = "".join(f"<li>{escape(sentence)}</li>" for sentence in order.meanings)
    body = [
        f"<h1>{escape(title)}</h1>",
        settings,
        f"<p>{escape(order.sentence)}</p>" if order.sentence else "",
        ranking.section(order.rankings, order.best, order.key) if order.rankings else "",
        _table(order),
        f'<ul class="note">{notes}</ul>',
        *pictured,
        f'<p class="note">{left} more are not pictured.</p>' if left and pictured else "",
    ]
    return html.page(title, "\n".join(body))


def _table(order: Order) -> str:
    keys, lines = order.keys, []
    for entry in order.entries:
        result = entry.result
        cells = [html.cell(html.name(entry.name), "name")]
        if result is None:
            cells.append(f'<td class="problem" colspan="{2 + len(keys)}">{escape(entry.problem)}.</td>')
        else:
            iteration = "" if result.iteration is None else f"{result.iteration:,}"
            cells += [html.cell(iteration, "number"), html.cell(escape(result.dataset))]
            cells += [html.cell(figure(entry, key), "number") for key in keys]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return html.table(("samples of", "iteration", "data", *keys), lines)


def _pictures(entry: Entry, own: NearestImages) -> str:
    assert entry.result
    samples = entry.result.samples.cpu()
    head = f"<h2>{escape(entry.name)}</h2>"
    if samples.dim() != 4:
        return f'{head}<div class="pictures">{_figure(scatter(own.reals, samples), "generated points on real ones")}</div>'
    assert own.distances is not None
    n, k = own.distances.shape
    closest = own.distances[:, 0]
    caption = (
        f"left: samples; right: the {k} training images nearest to each, in {own.where}. The nearest one is at distances of "
        f"{closest.min():.3g} to {closest.max():.3g}, and a copy would be at 0. From a training image to the nearest "
        f"other one it is {own.yardstick}"
    )
    if translated := entry.result.translations:
        grid = translations(translated.sources, translated.outputs, translated.targets, two_way=translated.two_way)
        drawn = _figure(grid, f"what the translator makes of {translated.description}", wide=True)
    else:
        drawn = _figure(image_grid(samples, columns=8), "samples")
    drawn += _figure(beside_the_nearest(samples[:n], own.reals), caption)
    return f'{head}<div class="pictures">{drawn}</div>'


def _figure(drawn: np.ndarray, caption: str, *, wide: bool = False) -> str:
    url = html.inlined(Image.fromarray(drawn), WIDEST)
    across = ' style="grid-column: 1 / -1"' * wide
    return f'<figure{across}><img alt="{escape(caption)}" src="{url}"><figcaption>{escape(caption)}</figcaption></figure>'
