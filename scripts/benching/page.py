"""The results as a page in Markdown, with its figures: everything in it is computed from the file of results."""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from benching import statistics
from benching.longer import BUDGETS as BUDGETS_SEEN
from benching.longer import TRIED
from benching.results import Arm, Line, Results
from benching.rules import BASE, RULES
from benching.running import JUDGEMENTS
from benching.schedule import SEEDS
from benching.space import DIVISIONS, FURTHER, POINTS
from benching.verdicts import TARGET_AT, Block, Verdict, blocks, conclusions, consistent, edge_share, edges, overall
from benching.workloads import WORKLOADS, Workload
from ganexp.cli.commands.pages.markdown import table
from ganexp.compare.intervals import Interval

EARLIER = "## The earlier study"
"""What stands below this heading of the page stays as it is."""
COLOURS = {"better": "tab:green", "worse": "tab:red", "alike": "0.45"}
TITLES = {"adam": "Adam", "sgd": "SGD"}
SHOWN = (0.25, 4.0)
"""The ratios that the figure shows; others lie beyond its panels."""
BUDGETS = (1, 2, 5, 10, POINTS, POINTS + FURTHER)

INTRODUCTION = """# Which update rule, and when?

Every update rule of [strategies.md](strategies.md) is compared here with `detach`: ordinary alternating training, D first.
Every rule gets the same chance on every workload, with {optimisers} apart: {points} tuning runs at the same quasi-random
points, over three decades of D's rate, ratios of G's rate to D's from 1/5 to 5, the momentum ({momentum}), and the rule's
own coefficients, in ranges that hold the values of its paper. {further} further points beyond the ranges of the rates are
tried too, and count once every rule has them. The point with the best plateau on the validation split (the mean of the last
three of {judgements} judgements) is then run on {seeds} other seeds and judged on the test split. All runs of a workload see
equally many real samples: a rule that draws two batches for an iteration makes half as many iterations. The comparisons were
fixed beforehand: each rule with `detach`, paired by seed.

- **Figure**: the distance to real data at the end of the budget, lower is better; the interquartile mean over seeds, which
  stays finite if up to a quarter of them diverge, with its 95 % interval by bootstrap over seeds.
- **× `detach`**: the ratio of these means, with its interval; over workloads their geometric mean, and the bootstrap is
  stratified by workload, without those on which `detach` loses most of its seeds. **Chance**: the probability that a run of
  the rule ends better than one of `detach`.
- **p**: Wilcoxon's signed-rank test of the ratios, paired by seed, corrected by Holm for all comparisons on the workload
  with the optimiser. A rule counts as **better** or **worse** if p is below 5 %, which is printed bold, and ratio and chance
  point the same way; else it is **alike**, not to be told from `detach`. One whose tuning runs all diverged is worse.
- **Lost**: seeds that diverged or collapsed, that is, ended no closer to the real data than real data without half of the
  classes.
- **Target**: how many seeds reached the target, and if more than half did, the median share of the budget that it took. The
  target is what the tuned `detach` with Adam had on the validation split after {target} of its {judgements} judgements.
- **Time**: what the budget takes, in units of `detach`, from races side by side on an idle machine, with Adam; the same rule
  differs by a tenth or two between workloads. **At equal time**: the ratio when the slower of the two is stopped at the time
  at which the faster one ends.
"""

PLATEAUS = """## Learning curves, smaller budgets and spread

Left: interquartile means over the budget. Middle: what fewer tuning runs would have found, the mean over all choices of
so many of the points. Right: the share of seeds that end at or below each distance. Shown are `detach`, the three best rules,
the middle one and the worst with a finite figure, and on the right in grey all others.

![Curves over the budget, best-of-n curves, and performance profiles]({picture})
"""

POWER = """## Power

How large must a difference be to be found? With {seeds} seeds and {comparisons} comparisons, one of {effect:.2f} standard
deviations of the paired differences is found with a chance of {power:.0%} by the strictest of Holm's steps; later steps find
smaller ones, and so does a rule that spreads less. For the rule with the median spread, among seeds that did not diverge:

{table}"""

TUNING = """## Tuning

{held} of {of} optima lie in the outer tenth of a range, beyond which there may be a better one; of all points, {chance:.0%}
do. {extended} A rule's own ranges are the same on all workloads and are not extended; some apply to Adam only.

The point is chosen by one seed, so another may be better over many: the intervals and p's of the tables are of the rule *at
this point*, and do not hold the chance of the choice. {moved}So few points for the rates of both networks and a momentum
leave much between them of which nothing is known, for any rule. *Best of n* is the figure on the validation split that n of
the points would have found, the mean over all choices of n; – where all points of a choice may have diverged.

{tables}"""

LONGER = """## Are the budgets long enough?

`detach` with Adam at points {points} of the space, over twice the budget, on the validation split; the vertical line is the
budget. The table has the point that is best there.

![The figure of detach over two budgets]({picture})

{table}"""

WORKLOADS_RUN = """## Workloads, and what has been run

Workloads are frozen: [workloads.py](../scripts/benching/workloads.py) has their networks, losses, data and batches, and a
change raises the version. A rule all of whose points diverged has no further runs.

{table}
{made}

```bash
python scripts/bench.py --workloads ring_nonsaturating --jobs 1
python scripts/bench.py --workloads ring_nonsaturating --times
python scripts/bench.py --workloads ring_nonsaturating --longer
python scripts/bench.py --page-only
python scripts/tables.py
```

The last command brings the tables of the [README](../README.md) and of [strategies.md](strategies.md) up to date.
"""

OWN = """## A rule of your own

A strategy or a wrapper in `mine.py`, [as the library takes it](library.md#parts-for-the-command-line), is tuned, run and
placed in the tables by

```bash
python scripts/bench.py --rule mine.Rule --tune gamma=0.01..10
```

It runs on all workloads for a CPU, or on those that `--workloads` names. The bench says first how long that takes, and
may be stopped and begun again at any time. `--results` and `--page` name other files than the committed ones; a copy of
[study.csv](study.csv) there brings the other rules along. It has a line for each run: point, seed, settings, seconds of a
core, and the figures of its {judgements} judgements. `--times` with the same words races the rule with `detach`, on an idle
machine. A rule that you have changed is another rule: give it another name.
"""


def write(results: Results, page: Path) -> None:
    """Write the page and its figures; what stands below the heading of the earlier study is kept."""
    found = blocks(results)
    page.parent.mkdir(parents=True, exist_ok=True)
    kept = page.read_text().partition(EARLIER)[2] if page.exists() else ""
    pictures = []
    if any(len(block.verdicts) > 1 for block in found):
        for suffix, draw in ((".png", drawn), ("_curves.png", courses)):
            picture = page.with_name(page.stem + suffix)
            draw(found).savefig(picture, dpi=80)
            pictures.append(picture.name)
    if results.of_part("longer"):
        over_two_budgets(results).savefig(page.with_name(page.stem + "_budgets.png"), dpi=80)
    page.write_text(text(results, found, pictures, f"{page.stem}_budgets.png") + (f"\n{EARLIER}{kept}" if kept else ""))


def text(results: Results, found: Sequence[Block], pictures: Sequence[str], of_budgets: str) -> str:
    """Return the page, without the earlier study."""
    parts = [_introduction(), "## What was found\n", _in_short(found), *(_overall(found, name) for name in DIVISIONS)]
    if pictures:
        parts.append(f"![The figure of every rule relative to that of detach]({pictures[0]})\n")
    parts += [
        f"### {block.name}\n\n{block.workload.unit[0].upper()}{block.workload.unit[1:]}.{_unfinished(block)}\n\n{_table(block)}"
        for block in found
    ]
    if pictures:
        parts.append(PLATEAUS.format(picture=pictures[1]))
    parts += [
        _power(found),
        _tuned(results, found),
        _longer(results, of_budgets),
        _what_there_is(results),
        OWN.format(judgements=JUDGEMENTS),
    ]
    return "\n".join(filter(None, parts))


def drawn(found: Sequence[Block]) -> Figure:
    """Draw every rule's ratio to `detach` with its interval, a panel for each block."""
    shown = [block for block in found if len(block.verdicts) > 1]
    columns = min(4, len(shown))
    rows = math.ceil(len(shown) / columns)
    tallest = max(len(block.verdicts) for block in shown)
    figure = Figure(figsize=(max(7, 4.2 * columns), rows * (1.4 + 0.24 * tallest)), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, block in zip(panels, shown, strict=False):
        ordered = [one for one in block.verdicts if one.ratio][::-1]
        for height, one in enumerate(ordered):
            assert one.ratio is not None
            _bar(axes, height, one.ratio, COLOURS[one.standing])
        axes.axvline(1, color="0.2", linewidth=0.8)
        axes.set_yticks(range(len(ordered)), [one.rule for one in ordered])
        title = block.name if block.tells or not block.complete else f"{block.name}\n(detach is lost)"
        axes.set(xscale="log", xlim=SHOWN, title=title, xlabel="← better     × detach     worse →")
        axes.grid(axis="x", alpha=0.3)
        _plain(axes)
    for axes in panels[len(shown) :]:
        axes.remove()
    figure.suptitle("Green: better than detach. Red: worse. Grey: not to be told from it.", fontsize=11)
    return figure


def courses(found: Sequence[Block]) -> Figure:
    """Draw the curves of each block, what smaller budgets of tuning would have found, and the performance profiles."""
    shown = [block for block in found if len(block.verdicts) > 1]
    figure = Figure(figsize=(13, 3.4 * len(shown)), layout="constrained")
    for row, block in zip(figure.subplots(len(shown), 3, squeeze=False), shown, strict=True):
        picked = _picked(block)
        over = np.arange(1, JUDGEMENTS + 1) / JUDGEMENTS * block.workload.images
        worst = max(float(np.max(one.curve[np.isfinite(one.curve)], initial=0)) for one in picked)
        at = np.geomspace(min(one.ends.min() for one in picked) * 0.95, worst, 100)
        for one in block.verdicts:
            row[2].plot(at, statistics.profile(one.ends, at), color="0.8", linewidth=0.8)
        for one in picked:
            style = {"color": "black", "linewidth": 2} if one.rule == BASE else {"linewidth": 1.2}
            row[0].plot(over, one.curve, label=one.rule, **style)
            budgets = range(1, len(one.searched) + 1)
            row[1].plot(budgets, [_best_of(one, n) for n in budgets], **style)
            row[2].plot(at, statistics.profile(one.ends, at), **style)
        if block.target is not None:
            row[0].axhline(block.target, color="0.6", linestyle=":", linewidth=1)
        row[0].set(yscale="log", xlabel="real samples", ylabel=block.workload.unit, title=f"{block.name}: over the budget")
        row[1].set(yscale="log", xlabel="tuning runs", title="best of n, on the validation split")
        row[2].set(xscale="log", xlabel=block.workload.unit, ylabel="share of seeds at most", title="profiles")
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
    shown = _runs_over_two_budgets(results)
    columns = min(4, len(shown))
    figure = Figure(figsize=(3.2 * columns, 2.4 * math.ceil(len(shown) / columns)), layout="constrained")
    panels = figure.subplots(math.ceil(len(shown) / columns), columns, squeeze=False).flatten()
    for axes, (workload, runs) in zip(panels, shown.items(), strict=False):
        for line in runs:
            over = np.arange(1, len(line.figures) + 1) / JUDGEMENTS * BUDGETS_SEEN
            best = line is _best_at_the_budget(runs)
            axes.plot(over, line.figures, color="black" if best else "0.75", linewidth=2 if best else 1.2)
        axes.axvline(1, color="tab:red", linewidth=0.8)
        axes.set(yscale="log", title=workload.name, xlabel="budgets")
        axes.grid(alpha=0.3)
        _plain(axes, "y")
    for axes in panels[len(shown) :]:
        axes.remove()
    return figure


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
    axis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")
    axis.set_tick_params(which="both", labelsize=8)


def _picked(block: Block) -> list[Verdict]:
    """Return `detach`, the three best rules, the middle one and the worst."""
    others = [one for one in block.verdicts if one.rule != BASE and math.isfinite(one.figure.middle)]
    return [block.base, *dict.fromkeys([*others[:3], *others[len(others) // 2 :][:1], *others[-1:]])]


def _best_of(one: Verdict, n: int) -> float:
    value = statistics.best_of(one.searched, n)
    return value if math.isfinite(value) else math.nan


def _introduction() -> str:
    momentum = "; ".join(
        f"{', '.join(f'{float(one):g}' for one in division.momentum)} with {name}" for name, division in DIVISIONS.items()
    )
    return INTRODUCTION.format(
        points=POINTS,
        further=FURTHER,
        optimisers=" and ".join(TITLES.values()),
        momentum=momentum,
        judgements=JUDGEMENTS,
        seeds=SEEDS,
        target=TARGET_AT,
    )


def _in_short(found: Sequence[Block]) -> str:
    said = conclusions(found)
    if not said:
        return "No workload is complete yet.\n"
    return "\n".join(said) + "\n"


def _overall(found: Sequence[Block], division: str) -> str:
    """Return what a reader is to see in ten seconds: every rule over all complete workloads with an optimiser."""
    entries = overall(found, division)
    rows = [
        {
            "rule": f"`{one.rule}`",
            "× `detach`": _of(one.ratio),
            "chance": f"{one.improvement.middle:.2f}",
            "better, worse, alike": one.counts,
            "lost": f"{one.lost} of {SEEDS * len(one.standings)}" if one.lost else "",
        }
        for one in entries
    ]
    workloads = [f"`{block.workload.name}`" for block in found if block.division == division and block.tells]
    better, worse = (", ".join(f"`{rule}`" for rule in rules) or "none" for rules in consistent(entries))
    title = f"### With {TITLES[division]}, over {', '.join(workloads)}"
    short = f"Better somewhere and worse nowhere: {better}. Worse everywhere: {worse}."
    return f"{title}\n\n{short}\n\n{table(rows)}" if rows else ""


def _unfinished(block: Block) -> str:
    said = ""
    if block.missing:
        names = ", ".join(f"`{rule}`" for rule in block.missing)
        said += f" **Not complete**: {len(block.missing)} rules are not run to the end ({names})."
    if block.lost:
        said += f" No point held for {', '.join(f'`{rule}`' for rule in block.lost)}."
    for rule, why in block.misfits.items():
        said += f" `{rule}` does not fit: {why.partition(': ')[2].partition(': choose')[0] or why}."
    return said


def _table(block: Block) -> str:
    rows = []
    for one in block.verdicts:
        came, taken = np.isfinite(one.reached), float(np.median(one.reached))
        p = f"{one.p:.3f}" if one.p >= 0.001 else "<0.001"
        rows.append(
            {
                "rule": f"`{one.rule}`",
                "figure": _of(one.figure),
                "× `detach`": _of(one.ratio) if one.ratio else "1",
                "chance": f"{one.improvement.middle:.2f}" if one.improvement else "",
                "p": "" if one.ratio is None else f"**{p}**" if one.standing != "alike" else p,
                "lost": f"{one.lost}" if one.lost else "",
                "target": f"{came.sum()}: {100 * taken:.0f} %" if math.isfinite(taken) else f"{came.sum()}",
                "time": f"{one.time:.2f}" if math.isfinite(one.time) else "",
                "at equal time": _of(one.at_time) if one.at_time else "1" if one.ratio is None else "",
            }
        )
    return table(rows)


def _of(interval: Interval) -> str:
    low, middle, high = (_number(end) for end in (interval.low, interval.middle, interval.high))
    return f"{middle} [{low}, {high}]"


def _number(value: float) -> str:
    return "∞" if value > 1e6 else "–" if math.isnan(value) else f"{value:.3g}"


def _power(found: Sequence[Block]) -> str:
    if not found:
        return ""
    count = max(block.comparisons for block in found)
    effect = statistics.detectable(SEEDS, count)
    rows = []
    for block in found:
        spreads = [statistics.spread([pair]) for pair in block.pairs.values()]
        if known := [one for one in spreads if math.isfinite(one)]:
            middle = float(np.median(known))
            ends = math.exp(-effect * middle), math.exp(effect * middle)
            rows.append(
                {
                    "block": block.name,
                    "standard deviation of log ratios": f"{middle:.2f}",
                    "found by the strictest step": f"below {ends[0]:.2f} or above {ends[1]:.2f}",
                }
            )
    return POWER.format(
        seeds=SEEDS, comparisons=count, effect=effect, power=statistics.POWER, table=table(rows) if rows else ""
    )


def _tuned(results: Results, found: Sequence[Block]) -> str:
    parts = []
    for block in found:
        at_ends = edges(block)
        rows = [
            {
                "rule": f"`{one.rule}`",
                "point": one.chosen.point,
                "points that diverged": sum(not math.isfinite(value) for value in one.searched),
                "settings": f"`{one.chosen.said}`",
                **{f"best of {n}": _number(_best_of(one, n)) for n in BUDGETS if n <= len(one.searched)},
                "at the edge of the space": ", ".join(f"`{edge}`" if "." in edge else edge for edge in at_ends[one.rule]),
            }
            for one in block.verdicts
        ]
        if rows:
            taken, times = Counter(one.chosen.point for one in block.verdicts).most_common(1)[0]
            same = f"{times} of {len(rows)} rules were best at the same point, the one with number {taken}.\n\n"
            parts.append(f"### {block.name}, tuned to\n\n{same}{table(rows)}")
    if not parts:
        return ""
    held = sum(bool(ends) for block in found for ends in edges(block).values())
    of = sum(len(block.verdicts) for block in found)
    return TUNING.format(
        held=held,
        of=of,
        chance=edge_share(found),
        extended=_extended(found),
        moved=_moved(results, found),
        tables="\n".join(parts),
    )


def _moved(results: Results, found: Sequence[Block]) -> str:
    """Say how many choices the extension moved, and of how many of these the test split was looked at before."""
    arms = [
        results.arms[block.workload.key, block.division, one.rule]
        for block in found
        if block.extended
        for one in block.verdicts
    ]
    moved = [arm for arm in arms if arm.chosen(range(POINTS)) != arm.chosen(range(POINTS + FURTHER))]
    again = sum(len({line.point for line in arm.test}) > 1 for arm in moved)
    return (
        f"The extension moved {len(moved)} of {len(arms)} choices, and {again} of these rules had been run on the test split "
        "before. "
    )


def _extended(found: Sequence[Block]) -> str:
    said = (
        f"The {FURTHER} points of `--extended` go a decade beyond the range of D's rate and a factor of five beyond that of "
        "the ratio, at either end"
    )
    if without := ", ".join(block.name for block in found if not block.extended):
        return f"{said}; they count in a block once all rules have them, which is not so yet for {without}."
    return f"{said}, and the edges are those of the wider ranges."


def _longer(results: Results, picture: str) -> str:
    """Return what twice the budget brings."""
    rows = []
    for workload, runs in _runs_over_two_budgets(results).items():
        best = _best_at_the_budget(runs)
        at_one, at_two = best.figures[JUDGEMENTS // BUDGETS_SEEN - 1], best.figures[-1]
        rows.append(
            {
                "workload": f"`{workload.name}`",
                "point": best.point,
                "at the budget": _number(at_one),
                "lowest after": _number(min(best.figures[JUDGEMENTS // BUDGETS_SEEN :])),
                "at twice the budget": _number(at_two),
            }
        )
    points = ", ".join(map(str, TRIED[:-1])) + f" and {TRIED[-1]}"
    return LONGER.format(points=points, picture=picture, table=table(rows)) if rows else ""


def _runs_over_two_budgets(results: Results) -> dict[Workload, list[Line]]:
    """Return the runs that came to their end, by workload."""
    lines = [line for line in results.of_part("longer") if line.state == "finished"]
    found = {workload: [line for line in lines if line.workload == workload.key] for workload in WORKLOADS.values()}
    return {workload: runs for workload, runs in found.items() if runs}


def _best_at_the_budget(runs: Sequence[Line]) -> Line:
    return min(runs, key=lambda line: line.figures[JUDGEMENTS // BUDGETS_SEEN - 1])


def _what_there_is(results: Results) -> str:
    rows = []
    for workload in WORKLOADS.values():
        row: dict[str, object] = {
            "workload": f"`{workload.name}`",
            "version": workload.version,
            "real samples": f"{workload.images:,}",
            "judge": workload.unit,
            "for": {"cpu": "CPU", "gpu": "GPU"}[workload.machine],
        }
        for division in DIVISIONS:
            misfits = [rule for of, rule in results.misfits(workload.key) if of == division and rule in RULES]
            numbers = results.numbers(workload.key, division)
            wanted = (len(RULES) - len(misfits)) * (len(numbers) + SEEDS)
            arms = [
                arm for (key, of, rule), arm in results.arms.items() if (key, of) == (workload.key, division) and rule in RULES
            ]
            done = sum(sum(number in arm.tuning for number in numbers) + _tested(arm, numbers) for arm in arms)
            row[f"runs with {division}"] = f"{done:,} of {wanted:,}" if done else "none"
        rows.append(row)
    machines = dict.fromkeys(line.said for line in results.of_part("machine"))
    hours = sum(line.cpu_s for line in results.lines) / 3600
    made = f"{hours:.1f} hours of one core in all. " + " ".join(f"{one}." for one in machines) if machines else ""
    return WORKLOADS_RUN.format(table=table(rows), made=made)


def _tested(arm: Arm, points: Sequence[int]) -> int:
    """Return how many of the wanted test runs there are, of the point that is the best of these."""
    chosen = arm.chosen(points)
    return min(SEEDS, len(arm.seeds(chosen.point))) if chosen else 0
