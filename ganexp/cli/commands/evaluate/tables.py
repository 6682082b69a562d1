"""Figures of several sets of samples, ranked where they are comparable."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ganexp.cli.sweeping.tables import as_text
from ganexp.compare.ranking import Outcome, Ranking
from ganexp.compare.ranking import ranked as of_combinations
from ganexp.config.after_training import EvaluationResult
from ganexp.config.run_data import RunData
from ganexp.logging.meanings import sentences
from ganexp.printable import printable

NAME = 30
"""The greatest width of a name, in characters."""


@dataclass
class Entry:
    """One set of samples: its figures, or else one sentence on why there are none; for a run of a sweep, its settings too.

    Pictures are made of its data.
    """

    name: str
    path: Path
    result: EvaluationResult | None = None
    data: RunData | None = None
    problem: str = ""
    combination: str = ""
    seed: str = ""


@dataclass
class Order:
    """Entries with the best first, a sentence on their order, and the ranking of combinations if some have several seeds."""

    entries: list[Entry]
    sentence: str = ""
    key: str = ""
    best: str = ""
    rankings: list[Ranking] = field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        """The keys of all figures."""
        return [*dict.fromkeys(key for entry in self.entries if entry.result for key in entry.result.measures)]

    @property
    def meanings(self) -> list[str]:
        """What the figures mean, what translators were measured on, and the figures of the sources themselves, in sentences."""
        results = [entry.result for entry in self.entries if entry.result]
        lines = sentences([figure for result in results for figure in result.measures.items()])
        for translations in [result.translations for result in results if result.translations]:
            figures = " and ".join(f"{key.removeprefix('eval/')} {value:.4g}" for key, value in translations.baseline.items())
            source = f" The sources themselves, beside their targets, have {figures}." if figures else ""
            lines.append(f"Measured on {translations.description}.{source}")
        return [*dict.fromkeys(lines)]


def ranked(entries: Sequence[Entry], metric: str | None = None, direction: str = "auto") -> Order:
    """Return entries with the best first; in the given order if their figures are not comparable.

    Args:
        entries: All of them; those of one combination with different seeds are ranked by their mean.
        metric: The key to rank by; the first figure, if the entries do not have this one.
        direction: Which figures are best, in a sweep's words; used only if entries are ranked by `metric`.
    """
    evaluated = [(entry, entry.result) for entry in entries if entry.result]
    if len(evaluated) < 2:
        return Order([*entries])
    measures = evaluated[0][1].measures
    key = metric if metric in measures else next(iter(measures))
    if len({result.data for _, result in evaluated}) > 1:
        return Order([*entries], "Not ranked: these are figures of different data.")
    if any(key not in result.measures or result.measures[key].basis != measures[key].basis for _, result in evaluated):
        return Order(
            [*entries], "Not ranked: these are different measures, or of different settings, features or numbers of samples."
        )
    best = measures[key].best
    if key == metric and direction != "auto":
        best = "highest" if direction == "maximize" else "lowest"
    if not best:
        return Order([*entries], f"Not ranked: {key} does not say whether its lowest or its highest value is best.")
    reached = [_outcome(entry, key) for entry in entries]
    (ranking,) = of_combinations(reached, best)
    entry_of = {id(run): entry for run, entry in zip(reached, entries, strict=True)}
    sign = -1 if best == "highest" else 1
    order = [
        entry_of[id(run)]
        for place in ranking.places
        for run in sorted(place.runs, key=lambda run: math.inf if run.value is None else sign * run.value)
    ]
    order.sort(key=lambda entry: entry.result is None)
    several = any(len(place.values) > 1 for place in ranking.places)
    by = "the means over seeds" if several else "one run each, so that differences may be due to the seed"
    sentence = f"Ranked by {key}, {best} first: {by}."
    return Order(
        order, sentence, key, best, [replace(ranking, basis=measures[key].basis, note=measures[key].note)] if several else []
    )


def _outcome(entry: Entry, key: str) -> Outcome:
    combination, seed = entry.combination or entry.name, entry.seed or entry.name
    if entry.result is None:
        return Outcome(entry.name, combination, seed, reason="cannot be evaluated")
    return Outcome(entry.name, combination, seed, entry.result.figures[key])


def terminal(order: Order, width: int) -> str:
    """Lay figures out in tables that are no wider than a terminal, with problems, meanings and the ranking below."""
    shown = [entry for entry in order.entries if entry.result]
    if len(shown) == 1:  # nothing stands beside it: a line for each figure, and the whole name
        figures = {key.removeprefix("eval/"): figure(shown[0], key) for key in order.keys}
        longest = max(map(len, figures))
        lines = [printable(shown[0].name), *(f"  {key:<{longest}}  {text}" for key, text in figures.items()), ""]
    else:
        lines = _side_by_side(shown, order.keys, width)
    problems = [f"{entry.name}: {entry.problem}." for entry in order.entries if entry.problem]
    for sentence in map(printable, [*problems, *order.meanings, *([] if order.rankings else [order.sentence])]):
        lines += textwrap.wrap(sentence, width, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
    lines += ["", as_text(order.rankings, order.best, order.key, width)] if order.rankings else []
    return "\n".join(lines)


def _side_by_side(entries: Sequence[Entry], keys: Sequence[str], width: int) -> list[str]:
    """Return tables with a line for each of several entries, and as many columns as there is room for."""
    names = [printable(entry.name if entry.combination else _shortened(entry.name)) for entry in entries]
    columns = {key.removeprefix("eval/"): [figure(entry, key) for entry in entries] for key in keys}
    first = max(map(len, names))
    size = max(len(text) for column in columns.items() for text in (column[0], *column[1])) + 2
    at_once = max(1, (width - first) // size)
    lines: list[str] = []
    for heads in [[*columns][i : i + at_once] for i in range(0, len(columns), at_once)]:
        lines.append(" " * first + "".join(head.rjust(size) for head in heads))
        lines += [
            name.ljust(first) + "".join(columns[head][row].rjust(size) for head in heads) for row, name in enumerate(names)
        ]
        lines.append("")
    return lines


def figure(entry: Entry, key: str) -> str:
    """Return a figure as people read it, with that of real data in brackets; a dash if the entry has no such figure."""
    if entry.result is None or key not in entry.result.figures:
        return "–"
    real = entry.result.measures[key].real
    return f"{entry.result.figures[key]:.4g}" + ("" if real is None else f" (real {real:.3g})")


def _shortened(name: str) -> str:
    """Cut the middle out of a long name: what tells jobs of a sweep apart stands at either end."""
    half = (NAME - 1) / 2
    return name if len(name) <= NAME else f"{name[: math.ceil(half)]}…{name[-math.floor(half) :]}"


def document(order: Order) -> dict[str, Any]:
    """Return everything as plain values."""
    places = [
        {
            "combination": place.combination,
            "seeds": len(place.values),
            "mean": place.mean,
            "interval": [place.interval.low, place.interval.high] if place.interval else None,
            "standing": place.standing,
            "p": place.p,
        }
        for ranking in order.rankings
        for place in ranking.places
        if place.values
    ]
    return {"ranking": order.sentence, "combinations": places, "results": [_plain(entry) for entry in order.entries]}


def _plain(entry: Entry) -> dict[str, Any]:
    plain: dict[str, Any] = {"name": entry.name, "path": str(entry.path)}
    if entry.result is None:
        return plain | {"problem": entry.problem}
    result = entry.result
    measured = {
        key: {"value": result.figures[key], "meaning": described.meaning, "best": described.best, "real": described.real}
        for key, described in result.measures.items()
    }
    translated = result.translations
    of_sources = {"pairs": translated.description, "sources_themselves": translated.baseline} if translated else {}
    return plain | {"iteration": result.iteration, "dataset": result.dataset, "figures": measured} | of_sources
