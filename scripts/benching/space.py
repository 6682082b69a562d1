"""The space in which every rule is tuned, and the points that are tried in it, equal for all rules."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.stats import qmc

VERSION = 1
"""Raised with every change; results found in another space are left aside."""
POINTS, FURTHER = 20, 10
"""How many points are tried, and how many further ones where the space is extended."""
DIMENSIONS = 6
"""D's rate, the ratio of rates, the momentum, and up to three coefficients of a rule's own."""
CROSSED = 5
"""With how many further values of its own coefficients a rule is tried at the best rates that it has found."""
EDGE = 0.1
"""If the best point lies in this share of a range, at either end, the optimum may lie beyond the range."""


@dataclass(frozen=True)
class Coefficient:
    """A setting of a rule's own, and the range in which it is tuned.

    Args:
        key: Its place in the configuration, as in `strategy.gamma`.
        low, high: The ends of the range.
        scale: Whether equal parts of the range are equal ratios (`log`) or differences (`linear`).
        values: The values that it may have, instead of a range.
        whole: Whether it is an integer; of a `linear` range, all integers from low to high are equally likely.
        divisions: The divisions in which it is tuned; in the others it keeps its default.
    """

    key: str
    low: float = 0.0
    high: float = 1.0
    scale: str = "linear"
    values: tuple[str, ...] = ()
    divisions: tuple[str, ...] = ("adam", "sgd")
    whole: bool = False

    def at(self, u: float) -> str:
        """Return the value at a place between 0 and 1, as text for the command line."""
        if self.values:
            return self.values[min(int(u * len(self.values)), len(self.values) - 1)]
        high = self.high + self.whole  # an integer is that of the interval [n, n + 1)
        value = self.low * (high / self.low) ** u if self.scale == "log" else self.low + (high - self.low) * u
        return str(min(int(value // 1), int(self.high))) if self.whole else f"{value:.4g}"


@dataclass(frozen=True)
class Division:
    """An optimiser, with the range of D's rate and the values of its form of momentum.

    Args:
        name: What it is called.
        overrides: As for `train.py`.
        low, high: The ends of the range of D's rate: three decades.
        momentum: The momentums that are tried.
        as_typed: How a momentum is typed, with `{}` for its value.
    """

    name: str
    overrides: tuple[str, ...]
    low: float
    high: float
    momentum: tuple[str, ...]
    as_typed: str


DIVISIONS = {
    "adam": Division("adam", ("optimizer=adam",), 1e-4, 1e-1, ("0.0", "0.5", "0.9"), "optimizer.betas=[{},0.999]"),
    "sgd": Division("sgd", ("optimizer=negative_momentum",), 3e-3, 3.0, ("-0.5", "0.0", "0.5", "0.9"), "optimizer.momentum={}"),
}
RATIO = Coefficient("", 0.2, 5.0, "log")
"""G's rate in units of D's."""
_CROSSING = 100
"""Crossed points are numbered from here on: 203 has the rates of point 3 and the coefficients of point 1."""
BEYOND = {"D's rate": 10, "the ratio of rates": 5}
"""By which factor the extension goes beyond a range, at either end."""


@dataclass(frozen=True)
class Point:
    """A point of the space for one rule.

    Args:
        settings: As for `train.py`.
        edges: Which settings lie at an end of their range, and at which: `D's rate (high)`.
    """

    settings: tuple[str, ...]
    edges: tuple[str, ...]


@cache
def places(draw: int = VERSION) -> np.ndarray:
    """Return the places of all points, `(POINTS + FURTHER, DIMENSIONS)`, between 0 and 1: a scrambled Halton sequence."""
    return qmc.Halton(DIMENSIONS, scramble=True, rng=np.random.default_rng(draw)).random(POINTS + FURTHER)


def crossed(number: int) -> list[int]:
    """Return the numbers of the points with the rates of this one, and with the own coefficients of the first `CROSSED`."""
    return [_CROSSING * (1 + other) + number % _CROSSING for other in range(CROSSED) if other != number % _CROSSING]


def is_crossed(number: int) -> bool:
    """Return whether a point has the rates of one point and the own coefficients of another."""
    return number >= _CROSSING


def point(
    number: int, division: Division, coefficients: tuple[Coefficient, ...], *, extended: bool = False, draw: int = VERSION
) -> Point:
    """Return a point.

    Those numbered from `POINTS` on belong to the extension: the first half lies within a decade below or above the range of
    D's rate, the others within a factor of five below or above that of the ratio.

    Args:
        number: Its number.
        division: The optimiser.
        coefficients: The rule's own.
        extended: Whether edges are those of the extended ranges.
        draw: Which set of points it is of.
    """
    other, number = divmod(number, _CROSSING)
    u = places(draw)[number]
    if other:
        u = np.concatenate([u[:3], places(draw)[other - 1, 3:]])
    wide = {"D's rate": Coefficient("", division.low, division.high, "log"), "the ratio of rates": RATIO}
    along = {name: float(place) for name, place in zip(wide, u[:2], strict=True)}
    beyond = {name: float(np.log(BEYOND[name]) / np.log(one.high / one.low)) for name, one in wide.items()}
    if number >= POINTS:
        name = "D's rate" if number < POINTS + FURTHER // 2 else "the ratio of rates"
        along[name] = (2 * along[name] - 1) * beyond[name] + (along[name] >= 0.5)
    d_rate, ratio = (one.at(along[name]) for name, one in wide.items())
    own = tuple(one for one in coefficients if division.name in one.divisions)
    momentum = Coefficient("", values=division.momentum).at(u[2])
    settings = (
        f"optimizer.d.lr={d_rate}",
        f"optimizer.g.lr={float(d_rate) * float(ratio):.4g}",
        division.as_typed.format(momentum),
        *(f"{one.key}={one.at(u[3 + i])}" for i, one in enumerate(own)),
    )
    if extended:
        along = {name: (place + beyond[name]) / (1 + 2 * beyond[name]) for name, place in along.items()}
    ranged = along | {one.key: float(u[3 + i]) for i, one in enumerate(own) if not one.values}
    edges = [f"{name} ({'low' if at < EDGE else 'high'})" for name, at in ranged.items() if not EDGE <= at <= 1 - EDGE]
    return Point(settings, tuple(edges))
