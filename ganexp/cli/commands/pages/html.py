"""The frame of an HTML page that needs no other file: its head, with the one style sheet of all pages."""

import json
from html import escape
from pathlib import Path

STYLE = Path(__file__).with_name("page.css")


def page(title: str, body: str, style: str = "") -> str:
    """Return a self-contained page, with further style rules."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE.read_text()}{style}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def for_script(values: object) -> str:
    """Return values as JSON that can stand in a script element: nothing in it can end the element or open a comment."""
    text = json.dumps(values, allow_nan=False)  # ASCII, so without U+2028 and U+2029
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
