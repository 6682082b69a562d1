"""The figures of the bench's page."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator

from benching import statistics
from benching.importance import Share
from benching.results import Line, Results
from benching.rules import BASE, RULES
from benching.running import JUDGEMENTS
from benching.schedule import BUDGETS, SEEDS
from benching.space import DIVISIONS
from benching.verdicts import Block, Verdict, overall, two_digits
from benching.workloads import WORKLOADS, Workload
from ganexp.compare.intervals import Interval

COLOURS = {"better": "tab:green", "worse": "tab:red", "equal": "tab:blue", "open": "0.45"}
SHADES = {"better": "#8fd18f", "worse": "#f2a3a0", "equal": "#cfe2f3", "open": "#ececec"}
TITLES = {"adam": "Adam", "sgd": "SGD"}
WITHIN = JUDGEMENTS // BUDGETS
"""How many judgements of a run over twice the budget lie within the budget."""
SHOWN = (0.5, 2.0)
"""The ratios that the figure shows; others lie beyond its panels."""
UNSTABLE = 5
"""Rules that lose at least so many seeds more than `detach` are hatched in the figure."""


def at_a_glance(found: Sequence[Block]) -> Figure:
    """Draw every rule's ratio to `detach` on every workload as a coloured cell; the best rules with Adam come first."""
    columns = [block for division in DIVISIONS for block in found if block.division == division and block.pairs]
    ordered = [one.rule for division in DIVISIONS for one in overall(found, division)]
    rules = [*dict.fromkeys([*ordered, *(rule for block in columns for rule in block.pairs)])]
    figure = Figure(figsize=(2.4 + 1.05 * len(columns), 1.9 + 0.27 * len(rules)), layout="constrained")
    axes = figure.subplots()
    for x, block in enumerate(columns):
        ratios = {one.rule: one.ratio.middle for one in block.verdicts if one.ratio} | dict.fromkeys(block.lost, math.inf)
        lost = {one.rule: one.lost for one in block.verdicts} | dict.fromkeys(block.lost, SEEDS)
        for y, rule in enumerate(rules):
            if rule in ratios:
                colour = SHADES[block.outcome(rule)]
                hatch = "////" if lost[rule] >= block.base.lost + UNSTABLE else None
                axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=colour, edgecolor="white", hatch=hatch))
                axes.text(x, y, two_digits(ratios[rule]), ha="center", va="center", fontsize=9)
    adam = sum(block.division == "adam" for block in columns)
    axes.axvline(adam - 0.5, color="0.2", linewidth=1)
    names = [block.workload.name.replace("_", "\n", 1) for block in columns]
    axes.set_xticks(
        range(len(columns)), [f"{name}\n{TITLES[block.division]}" for name, block in zip(names, columns, strict=True)]
    )
    axes.set_yticks(range(len(rules)), rules)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rules) - 0.5, -0.5))
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    title = "Distance to real data after equally many samples, relative to detach; the best chance with Adam first"
    colours = f"Green: better. Red: worse. Blue: equal within 10 %. Grey: {SEEDS} seeds do not decide."
    losses = f"Hatched: at least {UNSTABLE} more lost seeds than detach. ∞: more than a quarter of the seeds diverged."
    figure.suptitle(f"{title}.\n{colours} {losses}", fontsize=9)
    return figure


PARTS = {
    "D's rate": "#1f4e8c",
    "ratio of G's rate to D's": "#5b8fd0",
    "momentum": "#9fc3ec",
    "these together": "#d6e6f7",
    "update rule": "#e07b1a",
    "rule together with these": "#f7cfa0",
}
"""The parts of the figure of the choices, with their colours; what is left is explained by none, such as chance."""


def choices(shares: Sequence[Share]) -> Figure:
    """Draw how much of the spread of the tuning runs each choice explains, a bar for each block."""
    bars: dict[tuple[str, str], defaultdict[str, float]] = {}
    for one in (one for one in shares if one.scope == "all"):
        bars.setdefault(one.block, defaultdict(float))[_part(one.choice)] += max(0.0, 100 * one.share.middle)
    figure = Figure(figsize=(6, 2.1 + 0.27 * len(bars)), layout="constrained")  # narrow enough for a telephone
    axes = figure.subplots()
    names = [f"{name.replace('_', ' ')}, {TITLES[division]}" for name, division in bars]
    left = np.zeros(len(bars))
    for part, colour in PARTS.items():
        widths = np.array([bar[part] for bar in bars.values()])
        axes.barh(names, widths, left=left, color=colour, label=part, height=0.74)
        left += widths
    axes.barh(names, 100 - left, left=left, color="#eeeeee", label="none of these", height=0.74)
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xlabel="share of the spread of tuning runs, %")
    axes.xaxis.label.set_fontsize(12)
    axes.tick_params(labelsize=12, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.suptitle("Which choice decides how well a run ends?", fontsize=14, fontweight="bold")
    figure.legend(loc="outside lower center", ncols=2, fontsize=11.5, frameon=False, handlelength=1, columnspacing=1.2)
    return figure


def _part(choice: str) -> str:
    """Return to which part of the figure a choice or a pair of choices belongs."""
    if "rule" in choice:
        return "update rule" if choice == "rule" else "rule together with these"
    return "these together" if " × " in choice else "ratio of G's rate to D's" if choice == "ratio of rates" else choice


def intervals(found: Sequence[Block]) -> Figure:
    """Draw every rule's ratio to `detach` with its interval, a panel for each block."""
    shown = [block for block in found if len(block.verdicts) > 1]
    tallest = max(len(block.verdicts) for block in shown)
    figure, panels = _panels(len(shown), width=4.2 if len(shown) > 1 else 7, height=1.4 + 0.24 * tallest)
    for axes, block in zip(panels, shown, strict=True):
        ordered = [one for one in block.verdicts if one.ratio][::-1]
        for height, one in enumerate(ordered):
            assert one.ratio is not None
            _bar(axes, height, one.ratio, COLOURS[one.outcome])
        axes.axvline(1, color="0.2", linewidth=0.8)
        axes.set_yticks(range(len(ordered)), [one.rule for one in ordered])
        title = block.name if block.tells or not block.complete else f"{block.name}\n(detach is lost)"
        axes.set(xscale="log", xlim=SHOWN, title=title, xlabel="← better     × detach     worse →")
        axes.grid(axis="x", alpha=0.3)
        _plain(axes)
    figure.suptitle("Green: better than detach. Red: worse. Blue: equal within 10 %. Grey: not decided.", fontsize=11)
    return figure


def courses(found: Sequence[Block]) -> Figure:
    """Draw the curves of each block, what smaller budgets of tuning would have found, and the performance profiles."""
    shown = [block for block in found if len(block.verdicts) > 1]
    figure = Figure(figsize=(13, 3.4 * len(shown)), layout="constrained")
    for row, block in zip(figure.subplots(len(shown), 3, squeeze=False), shown, strict=True):
        picked = _picked(block)
        over = np.arange(1, JUDGEMENTS + 1) / JUDGEMENTS * block.workload.images / 1000
        worst = max(float(np.max(one.curve[np.isfinite(one.curve)], initial=0)) for one in picked)
        at = np.geomspace(min(one.ends.min() for one in picked) * 0.95, worst, 100)
        for one in block.verdicts:
            row[2].plot(at, statistics.profile(one.ends, at), color="0.8", linewidth=0.8)
        for one in picked:
            style = _style(one.rule)
            row[0].plot(over, one.curve, label=one.rule, **style)
            budgets = range(1, len(one.searched) + 1)
            row[1].plot(budgets, [best_of(one, n) for n in budgets], **style)
            row[2].plot(at, statistics.profile(one.ends, at), **style)
        if block.target is not None:
            row[0].axhline(block.target, color="0.4", linestyle=":", linewidth=1)
        if block.floor is not None:
            row[0].axhline(block.floor, color="0.4", linestyle="--", linewidth=1)
        row[0].set(yscale="log", xlabel="thousands of real samples", ylabel=block.workload.unit)
        row[0].set_title(f"{block.name}: over the budget")
        row[1].set(yscale="log", xlabel="tuning runs", title="best of n, on the validation split")
        row[2].set(xscale="log", xlabel=block.workload.unit, ylabel="share of seeds", title="seeds at or below a distance")
        row[1].set_ylim(top=min(row[1].get_ylim()[1], 2 * worst))
        handles, labels = row[0].get_legend_handles_labels()
        row[2].legend(handles, labels, fontsize=8, loc="upper left", bbox_to_anchor=(1.02, 1))
        for axes in row:
            axes.grid(alpha=0.3)
        for axes, which in ((row[0], "y"), (row[1], "y"), (row[2], "x")):
            _plain(axes, which)
    return figure


def over_two_budgets(results: Results) -> Figure:
    """Draw the runs over twice the budget, a panel for each workload."""
    shown = runs_over_two_budgets(results)
    figure, panels = _panels(len(shown), width=3.2, height=2.4)
    for axes, (workload, runs) in zip(panels, shown.items(), strict=True):
        for line in runs:
            over = np.arange(1, len(line.figures) + 1) / JUDGEMENTS * BUDGETS
            best = line is best_at_the_budget(runs)
            axes.plot(over, line.figures, color="black" if best else "0.75", linewidth=2 if best else 1.2)
        axes.axvline(1, color="tab:red", linewidth=0.8)
        axes.set(yscale="log", title=workload.name, xlabel="share of the budget", ylabel=workload.unit.partition(" in ")[0])
        axes.grid(alpha=0.3)
        _plain(axes, "y")
    return figure


def _panels(count: int, *, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, four in a row, each of a width and a height in inches."""
    columns = min(4, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    panels = [*figure.subplots(rows, columns, squeeze=False).flat]
    for axes in panels[count:]:
        axes.remove()
    return figure, panels[:count]


def _bar(axes: Axes, height: float, interval: Interval, colour: str) -> None:
    """Draw an interval; what lies beyond the panel ends in an arrow, with its middle as a number."""
    low, middle, high = (min(max(end, SHOWN[0]), SHOWN[1]) for end in (interval.low, interval.middle, interval.high))
    axes.plot([low, high], [height, height], color=colour, linewidth=2)
    if interval.high > SHOWN[1]:
        axes.plot(SHOWN[1], height, ">", color=colour, markersize=6, clip_on=False)
    if interval.low < SHOWN[0]:
        axes.plot(SHOWN[0], height, "<", color=colour, markersize=6, clip_on=False)
    if middle == interval.middle:
        axes.plot(middle, height, "o", color=colour, markersize=5)
    else:
        number = f"× {interval.middle:.2g}" if interval.middle < 1e6 else "× ∞"
        inwards, side = (-8, "right") if interval.middle > middle else (8, "left")
        axes.annotate(
            number, (middle, height), (inwards, 0), textcoords="offset points", ha=side, va="center", backgroundcolor="white"
        )


def _plain(axes: Axes, which: str = "x") -> None:
    """Write few ticks, as plain numbers."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 30 * low else (1, 1.5, 2, 3, 5, 7)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")
    axis.set_tick_params(which="both", labelsize=8)


def _picked(block: Block) -> list[Verdict]:
    """Return `detach`, the three best rules, the middle one and the worst."""
    others = [one for one in block.verdicts if one.rule != BASE and math.isfinite(one.figure.middle)]
    return [block.base, *dict.fromkeys([*others[:3], *others[len(others) // 2 :][:1], *others[-1:]])]


def _style(rule: str) -> dict[str, Any]:
    """Return how a rule is drawn in every panel."""
    if rule == BASE:
        return {"color": "black", "linewidth": 2}
    colours, dashes = colormaps["Dark2"].colors, ("-", "--", "-.")  # type: ignore[attr-defined]
    number = [*RULES].index(rule) if rule in RULES else len(RULES)
    dash = dashes[number // len(colours) % len(dashes)]
    return {"color": colours[number % len(colours)], "linestyle": dash, "linewidth": 1.2}


def best_of(one: Verdict, n: int) -> float:
    """Return what n of the points would have found, the mean over all choices; NaN if all may have diverged."""
    value = statistics.best_of(one.searched, n)
    return value if math.isfinite(value) else math.nan


def runs_over_two_budgets(results: Results) -> dict[Workload, list[Line]]:
    """Return the runs that got as far as the budget, by workload."""
    lines = [line for line in results.of_part("longer") if len(line.figures) >= WITHIN]
    found = {workload: [line for line in lines if line.workload == workload.key] for workload in WORKLOADS.values()}
    return {workload: runs for workload, runs in found.items() if runs}


def best_at_the_budget(runs: Sequence[Line]) -> Line:
    """Return the run that is best when the budget ends."""
    return min(runs, key=lambda line: line.figures[WITHIN - 1])
