"""The frame of an HTML page that needs no other file: its head, with the one style sheet of all pages."""

from html import escape
from pathlib import Path

STYLE = Path(__file__).with_name("page.css")


def page(title: str, body: str) -> str:
    """Return a page of its own."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE.read_text()}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'
