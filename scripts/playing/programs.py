"""Recordings of every strategy in every game at every ratio of steps, for the page."""

import json
from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
from torch import Tensor
from tqdm import tqdm

from playing.games import GAMES, Game, Settings, Strategy
from playing.references import STEPS
from playing.shown import SHOWN, Shown, made
from playing.tape import Unrepeatable, program

SETTINGS = Settings(rate=0.1, momentum=0.3)
"""The settings at which strategies are recorded: neither number could be in a tape for another reason."""


def programs(
    games: Iterable[Game] = GAMES, shown: Iterable[Shown] = SHOWN, steps: Iterable[tuple[int, int]] = STEPS
) -> dict[str, Any]:
    """Return `names` of operations, `tapes` without duplicates, and `programs` by game, strategy and ratio of steps."""
    names: dict[str, int] = {}
    tapes: dict[str, int] = {}
    found: dict[str, Any] = {}

    def kept(recorded: dict[str, Any]) -> dict[str, Any]:
        at = []
        for tape in recorded["tapes"]:
            coded = [[names.setdefault(name, len(names)), *rest] for name, *rest in tape]
            at.append(tapes.setdefault(json.dumps(coded, separators=(",", ":")), len(tapes)))
        return recorded | {"tapes": None, "first": at[recorded["first"]], "loop": [at[one] for one in recorded["loop"]]}

    cases = [*product(games, shown, steps)]
    for game, one, (d, g) in tqdm(cases, desc="strategies recorded", disable=None, unit="program"):
        own = recordings(game, one, Settings(SETTINGS.rate, SETTINGS.momentum, d, g))
        packed = [kept(each) for each in own] if isinstance(own, list) else kept(own)
        found.setdefault(game.name, {}).setdefault(one.name, {})[f"{d}:{g}"] = packed
    return {"names": list(names), "tapes": [json.loads(tape) for tape in tapes], "programs": found}


def recordings(game: Game, shown: Shown, settings: Settings) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the program of a strategy: one whose numbers follow the coefficient, or one for each stop of its slider."""
    one = shown.coefficient

    def make(coefficient: float | None, rate: Tensor) -> Strategy:
        strategy = made(shown.name, coefficient, settings)
        if vars(strategy).get("rate") is not None:
            strategy.rate = rate  # type: ignore[attr-defined]
        return strategy

    if one is None:
        return program(game, make, settings, (None,), shown.cycle)
    stops = [round(float(stop), 9) for stop in np.arange(one.low, one.high + one.step / 2, one.step)]
    if len(stops) > 2:
        with suppress(Unrepeatable):
            return program(game, make, settings, (stops[0], stops[len(stops) // 2], stops[-1]), shown.cycle)
    return [program(game, make, settings, (stop,), shown.cycle) | {"coefficient": stop} for stop in stops]
