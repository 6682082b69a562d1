"""The section of docs/strategies.md, and its picture."""

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ganexp.cli.pages.figures import reaches
from ganexp.compare.intervals import Interval
from ganexp.documents import atomic_write
from measuring.intervals import of_mean, of_positive_mean
from measuring.markdown import table
from spectral.plan import FIRST_SEED, REFERENCE, RULES, SETTINGS
from spectral.verdict import Found, answer, signed

PLACE = re.compile(r"(<!-- measured: spectra -->\n)(.*?)(<!-- end of measured -->)", re.DOTALL)
MARKS = "osD^v"


def section(settings: Mapping[str, Found], machine: str) -> str:
    """Return the section's text."""
    rows = []
    for rule in RULES:
        row = {"rule": f"`{rule}`"}
        for name, one in settings.items():
            row |= {f"{name}: predicted": _factor(one.predicted[rule]), f"{name}: reached": reached(one.figures[rule])}
        rows.append(row)
    seeds = range(FIRST_SEED, FIRST_SEED + min(len(one.seeds) for one in settings.values()))
    trained = "; ".join(
        f"{one.iterations} iterations on the {name} at a rate of {one.rate}, judged by the {one.unit}"
        for name, one in SETTINGS.items()
    )
    leaving = " and ".join(
        f"{sum(_mean(own) > 1 for own in one.predicted.values())} of {len(RULES)} on the {name}"
        for name, one in settings.items()
    )
    own = " and ".join(f"{signed(one.correlation(one.own, one.figures))} on the {name}" for name, one in settings.items())
    times = " and ".join(f"{signed(one.correlation(one.predicted, one.times))} on the {name}" for name, one in settings.items())
    inner = ((name, " ".join(one for one in typed if one.startswith("strategy."))) for name, typed in RULES.items())
    shortened = ", ".join(f"`{name}` with `{typed}`" for name, typed in inner if typed)
    paragraphs = [
        answer(settings),
        "Every rule was trained by plain descent, which is what predictions are about, with the seeds "
        f"{seeds[0]} to {seeds[-1]}: {trained}. Lower is better. The rate is the best of four for "
        f"`{REFERENCE}` with seed 0. A prediction is the factor that a rule "
        f"has on the game with the eigenvalues found along the run of `{REFERENCE}`, a geometric mean over the run. "
        f"`lookahead` wraps `joint`, and `anchoring` wraps `extragradient`. To save time, some take few inner steps: "
        f"{shortened}. Intervals are of 95 %: those of correlations are over rules, by bootstrap, all others over seeds.",
        f"With the spectrum at the end of each rule's own run in place of those along that of `{REFERENCE}`, and without runs "
        f"that diverged before it was looked at, the correlation is {own}; with the iterations to what `{REFERENCE}` reaches "
        f"in place of the last figure, {times}. A factor above 1, predicted for {leaving}, says that a rule would leave an "
        f"equilibrium with this spectrum. But a moment of training is no equilibrium, only eigenvalues of the largest modulus "
        f"and of the smallest real part are known, and the Jacobian of a real game is not normal, as the prediction assumes.",
        f"`python scripts/spectra.py` measured [every figure](spectra.csv), on {machine}.",
        "![What the spectrum predicts of each rule, and what its runs reached](spectra.png)",
        "A cross marks a rule some of whose runs diverged.",
    ]
    wrapped = (textwrap.fill(one, 140, break_long_words=False, break_on_hyphens=False) for one in paragraphs)
    return "\n\n".join([*wrapped, table(rows)])


def reached(figures: Sequence[float]) -> str:
    """Return a mean with its interval, and how many runs diverged."""
    there = [one for one in figures if math.isfinite(one)]
    if not there:
        return "diverged"
    text = str(of_positive_mean(there)) if len(there) > 1 else f"{there[0]:.3g}"
    return text if len(there) == len(figures) else f"{text}, {len(figures) - len(there)} diverged"


def _factor(predicted: Sequence[float]) -> str:
    mean = _mean(predicted)
    return f"{mean:.3f}" if mean < 1000 else "∞" if math.isinf(mean) else f"{mean:.2g}"


def _mean(factors: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(factors))))


def plot(settings: Mapping[str, Found]) -> Figure:
    """Draw predictions against results, one panel for each setting."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    axes = figure.subplots(1, len(settings), squeeze=False)[0]
    for panel, (name, one) in zip(axes, settings.items(), strict=True):
        _draw(panel, name, one)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=8, frameon=False)
    return figure


def _draw(axes: Axes, name: str, found: Found) -> None:
    logs = {rule: np.log(own).tolist() for rule, own in found.predicted.items()}
    finite = [float(np.mean(own)) for own in logs.values() if np.isfinite(own).all()]
    edge = 3 * max(map(abs, finite))
    highest = max(one for own in found.figures.values() for one in own if math.isfinite(one))
    for i, rule in enumerate(RULES):
        x = of_mean(logs[rule]) if np.isfinite(logs[rule]).all() else Interval(edge, edge, edge)
        there = [one for one in found.figures[rule] if math.isfinite(one)]
        lost = len(there) < len(found.figures[rule])
        y = of_positive_mean(there) if len(there) > 1 else Interval(*[2 * highest] * 3)
        axes.errorbar(
            x.middle,
            y.middle,
            xerr=reaches([x]),
            yerr=reaches([y]),
            fmt="x" if lost else MARKS[i // 4 % len(MARKS)],
            color=f"C{i % 10}",
            markersize=6,
            linewidth=0.8,
            alpha=0.9,
            label=rule,
        )
    axes.set_xscale("symlog", linthresh=1)
    ticks = [factor for factor in (1, 1.5, 3, 10, 100) if np.log(factor) < edge / 2]
    beyond = [] if len(finite) == len(logs) else [edge]
    axes.set_xticks([*np.log(ticks), *beyond], [*(f"{factor:g}" for factor in ticks), *("∞" for _ in beyond)])
    axes.set_xticks([], minor=True)
    axes.set_yscale("log")
    axes.axvline(0, color="0.7", linewidth=0.8, zorder=0)
    axes.set_xlabel("predicted: factor per iteration")
    axes.set_ylabel(f"reached: {SETTINGS[name].unit}")
    axes.set_title(f"{name}: rank correlation {signed(found.correlation(found.predicted, found.figures))}", fontsize=10)


def around(page: Path) -> str:
    """Return the text of a page; of a new page, only the markers of the section.

    Raises:
        ValueError: It has no such place.
    """
    text = page.read_text() if page.exists() else "<!-- measured: spectra -->\n<!-- end of measured -->\n"
    if not PLACE.search(text):
        raise ValueError(
            f"{page} has no place for the section, from <!-- measured: spectra --> to <!-- end of measured -->: make one, or "
            "name another page with --page"
        )
    return text


def write(text: str, picture: Figure, page: Path) -> None:
    """Put the section into a page, in place of the one that is there, and the picture beside it."""
    written = PLACE.sub(lambda place: place[1] + text + place[3], around(page))
    page.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(page.with_name("spectra.png"), dpi=100)
    with atomic_write(page) as file:
        file.write(written.encode())
