"""Reference paths for the page: the ends of ganexp's own strategies on GANs in float64, at the ends of each slider."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from tqdm import tqdm

from playing.games import GAMES, Game, Settings, path
from playing.shown import SHOWN, Shown, made

RATES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
MOMENTA = (-0.9, -0.7, -0.5, -0.3, -0.1, 0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
STEPS = ((5, 1), (2, 1), (1, 1), (1, 2), (1, 5))
"""The stops of the sliders: learning rates, momenta, and updates of D and of G per iteration."""
START = (1.0, 0.5)
ITERATIONS = 30


def settings_of(shown: Shown) -> Iterator[tuple[Settings, float | None]]:
    """Yield the settings to try a strategy at: the ends of each slider and the middle, one by one, and two mixtures of all."""
    low, middle, high = shown.coefficient.stops if shown.coefficient else (None, None, None)
    usual = Settings()
    yield from ((usual, one) for one in dict.fromkeys((middle, low, high)))
    yield from ((replace(usual, rate=rate), middle) for rate in (RATES[0], RATES[-1]))
    yield from ((replace(usual, momentum=momentum), middle) for momentum in (MOMENTA[0], MOMENTA[-1]))
    yield from ((replace(usual, d_steps=d, g_steps=g), middle) for d, g in (STEPS[0], STEPS[-1]))
    yield Settings(0.3, -0.3, 2, 1), low
    yield Settings(0.2, 0.3, 1, 2), high


def references() -> list[dict[str, Any]]:
    """Return, for every game and strategy, settings and where they lead: (θ, ψ) at the end."""
    cases = [(game, shown, *one) for game in GAMES for shown in SHOWN for one in settings_of(shown)]
    return [reference(*case) for case in tqdm(cases, desc="paths by ganexp", disable=None, unit="path")]


def reference(game: Game, shown: Shown, settings: Settings, coefficient: float | None) -> dict[str, Any]:
    """Return one case, with its end."""
    found = path(game, made(shown.name, coefficient, settings), settings, ITERATIONS, START)
    case = {"game": game.name, "strategy": shown.name, **asdict(settings), "coefficient": coefficient}
    return case | {"end": found[-1].tolist()}
