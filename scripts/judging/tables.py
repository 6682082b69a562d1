"""Figures of several sets of samples, and what of them compares."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ganexp.configuration.judging import Judged

NAME = 30
"""So wide is a name at most, in characters."""


@dataclass
class Entry:
    """One set of samples: its figures, or else one sentence on why there are none."""

    name: str
    path: Path
    judged: Judged | None = None
    problem: str = ""


def ranked(entries: Sequence[Entry]) -> tuple[list[Entry], str]:
    """Return entries with the best first, by their first figure, and say so; unchanged where figures do not compare."""
    found = [(entry, entry.judged) for entry in entries if entry.judged]
    if len(found) < 2:
        return [*entries], ""
    key, measure = next(iter(found[0][1].measures.items()))
    if len({judged.data for _, judged in found}) > 1:
        return [*entries], "Not ranked: these are figures of different data."
    if len({one.basis for _, judged in found for name, one in judged.measures.items() if name == key}) > 1 or any(
        next(iter(judged.measures)) != key for _, judged in found
    ):
        return [*entries], "Not ranked: these are different measures, or of different features or numbers of samples."
    sign = -1 if measure.best == "highest" else 1
    order = sorted(found, key=lambda one: sign * one[1].figures[key])
    said = f"Ranked by {key}, {measure.best} first. How far seeds differ, only several of each can tell."
    return [entry for entry, _ in order] + [entry for entry in entries if entry.judged is None], said


def meanings(entries: Sequence[Entry]) -> list[str]:
    """Return what figures are, those together that were measured in the same way: by which features, with how many samples."""
    ways: dict[str, dict[str, None]] = {}
    for entry in entries:
        for key, one in entry.judged.measures.items() if entry.judged else ():
            plain = one.meaning.removesuffix(f", {one.basis}")
            ways.setdefault(one.basis, {})[f"{key} is the {plain} ({one.best} is best)"] = None
    return [f"{basis[:1].upper()}{basis[1:]}: {', '.join(said)}." for basis, said in ways.items()]


def terminal(entries: Sequence[Entry], said: str, width: int) -> str:
    """Lay figures out in tables that are no wider than a terminal, with problems and meanings below."""
    shown = [entry for entry in entries if entry.judged]
    keys = keys_of(shown)
    names = [shortened(entry.name) for entry in shown]
    first = max((len(name) for name in names), default=0)
    size = max((len(key.removeprefix("eval/")) for key in keys), default=0)
    size = max(size, 8) + 2
    at_once = max(1, (width - first) // size)
    lines: list[str] = []
    for part in [keys[i : i + at_once] for i in range(0, len(keys), at_once)]:
        lines.append(" " * first + "".join(key.removeprefix("eval/").rjust(size) for key in part))
        for name, entry in zip(names, shown, strict=True):
            lines.append(name.ljust(first) + "".join(figure(entry, key).rjust(size) for key in part))
        lines.append("")
    sentences = [f"{entry.name}: {entry.problem}." for entry in entries if entry.problem] + meanings(entries) + [said]
    for sentence in sentences:
        lines += textwrap.wrap(sentence, width, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
    return "\n".join(lines)


def keys_of(entries: Sequence[Entry]) -> list[str]:
    """Return the keys of all figures."""
    return [*dict.fromkeys(key for entry in entries if entry.judged for key in entry.judged.measures)]


def figure(entry: Entry, key: str) -> str:
    """Return a figure as people read it; a dash where there is none."""
    value = entry.judged.figures.get(key) if entry.judged else None
    return "–" if value is None else f"{value:.4g}"


def shortened(name: str) -> str:
    """Cut the middle out of a long name: what tells jobs of a sweep apart stands at either end."""
    half = (NAME - 1) / 2
    return name if len(name) <= NAME else f"{name[: math.ceil(half)]}…{name[-math.floor(half) :]}"


def document(entries: Sequence[Entry], said: str) -> dict[str, Any]:
    """Return everything as plain values."""
    return {"ranking": said, "results": [_plain(entry) for entry in entries]}


def _plain(entry: Entry) -> dict[str, Any]:
    plain: dict[str, Any] = {"name": entry.name, "path": str(entry.path)}
    if entry.judged is None:
        return plain | {"problem": entry.problem}
    judged = entry.judged
    measured = {
        key: {"value": judged.figures[key], "meaning": one.meaning, "best": one.best} for key, one in judged.measures.items()
    }
    return plain | {"iteration": judged.iteration, "dataset": judged.dataset, "figures": measured}
