"""Shared parts of the self-contained HTML pages: the head with its style sheet, tables, and pictures."""

import base64
import io
import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from PIL import Image

STYLE = Path(__file__).with_name("page.css")
LEAST = 400
"""Smaller pictures are magnified to at least this many pixels on the longer side: a browser would blur them."""


def page(title: str, body: str, style: str = "") -> str:
    """Return a self-contained page, with further style rules."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE.read_text('utf-8')}{style}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def for_script(values: object) -> str:
    """Return values as JSON that can stand in a script element: nothing in it can end the element or open a comment."""
    text = json.dumps(values, allow_nan=False)  # ASCII, so without U+2028 and U+2029
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def table(heads: Sequence[str], rows: Iterable[str], kind: str = "") -> str:
    """Return a table that scrolls sideways where it is too wide, from the texts of its heads and the HTML of its rows."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    of = f' class="{kind}"' if kind else ""
    return f'<div class="scroll"><table{of}><tr>{head}</tr>{"".join(rows)}</table></div>'


def name(text: str) -> str:
    """Return a name from a folder as HTML: where it is too long for its place, it is broken behind a `_`."""
    return escape(text).replace("_", "_<wbr>")


def cell(content: str, kind: str = "") -> str:
    """Return a cell of a table, given its HTML."""
    return f'<td class="{kind}">{content}</td>' if kind else f"<td>{content}</td>"


def inlined(picture: Image.Image, widest: int) -> str:
    """Return a picture as a data URL, scaled down where its longer side has more than `widest` pixels."""
    picture.thumbnail((widest, widest))
    times = math.ceil(LEAST / max(picture.size))
    picture = picture.resize((times * picture.width, times * picture.height), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
