"""The page: its text, its style, its scripts and its data, in one string."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ganexp.cli.pages import html
from ganexp.losses import WGAN
from playing import ring
from playing.games import GAMES
from playing.programs import programs
from playing.references import ITERATIONS, MOMENTA, RATES, START, STEPS, references
from playing.shown import SHOWN

ROOM = Path(__file__).resolve().parent
SCRIPTS = ("tapes", "clock", "state", "questions", "field", "charts", "ring", "page")
TITLE = "Why do GANs go round in circles? A playground"


def page(courses: dict[str, ring.Course]) -> str:
    """Return the page, given how the ring was learnt."""
    scripts = "\n".join((ROOM / f"{name}.js").read_text() for name in SCRIPTS)
    script = f"'use strict';\nconst data = {html.for_script(data(courses))};\n{scripts}"
    body = f"{(ROOM / 'body.html').read_text()}<script>{script}</script>"
    return html.page(TITLE, body, (ROOM / "playground.css").read_text())


def data(courses: dict[str, ring.Course]) -> dict[str, Any]:
    """Return what the scripts read."""
    return {
        "games": [{"name": one.name, "points": one.points, "bounded": one.loss is not WGAN} for one in GAMES],
        "strategies": [asdict(one) for one in SHOWN],
        "rates": RATES,
        "momenta": MOMENTA,
        "steps": [f"{d}:{g}" for d, g in STEPS],
        **programs(),
        "references": references(),
        "start": START,
        "iterations": ITERATIONS,
        "ring": ring.for_page(courses),
    }
