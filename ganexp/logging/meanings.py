"""What figures mean, in sentences: what they share of how they were measured is said once."""

from collections.abc import Collection, Sequence

from ganexp.instruments.scalar import Scalar
from ganexp.logging.keys import STEPS

AXES = dict(zip(STEPS, ("iterations", "real images", "seconds"), strict=True))
"""What curves are drawn against: the key, and what a page calls it."""


def plain(figure: Scalar) -> tuple[str, str]:
    """Return what a figure means, without how it was measured, and the remark on real data that follows, if there is one."""
    if not figure.basis:
        return figure.meaning, ""
    meaning, _, further = figure.meaning.partition(f", {figure.basis}")
    return meaning, further.removeprefix(f"; {figure.note}") if figure.note else further


def sentences(figures: Sequence[tuple[str, Scalar]]) -> list[str]:
    """Return what figures mean, grouped by how they were measured: by which features, with how many samples."""
    ways: dict[tuple[str, ...], dict[str, None]] = {}
    for key, figure in figures:
        meaning, of_real = plain(figure)
        ways.setdefault(_ways(figure), {})[
            f"{key} is the {meaning}{f' ({figure.best} is best{of_real})' if figure.best else of_real}"
        ] = None
    common, notes = shared([figure for _, figure in figures]), {figure.note for _, figure in figures}
    lines = [f"Measured with {_joined(common, notes)}."] if common else []
    for how, clauses in ways.items():
        own = _joined([part for part in how if part not in common], notes)
        lines.append(", ".join(clauses) + (f": {own}." if own else "."))
    return lines


def shared(figures: Sequence[Scalar]) -> list[str]:
    """Return what figures share of how they were measured: parts of their bases, then of their notes."""
    ways = [_ways(figure) for figure in figures]
    return [part for part in next(iter(ways), ()) if all(part in how for how in ways)]


def _ways(figure: Scalar) -> tuple[str, ...]:
    return tuple(part for part in (*figure.basis.split(", "), figure.note) if part)


def _joined(parts: Sequence[str], notes: Collection[str]) -> str:
    """Return parts of a basis separated by commas, and notes behind semicolons."""
    basis = ", ".join(part for part in parts if part not in notes)
    return "; ".join(filter(None, [basis, *(part for part in parts if part in notes)]))
