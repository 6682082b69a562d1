"""The results as a page in Markdown, with its figures: everything in it is computed from the file of results."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator

from benching import statistics
from benching.checks import NEXT_BEST, TRIED
from benching.results import Arm, Line, Results
from benching.rules import BASE, RULES
from benching.running import JUDGEMENTS
from benching.schedule import BUDGETS, SEEDS
from benching.space import DIVISIONS, FURTHER, POINTS
from benching.verdicts import (
    TARGET_AT,
    Block,
    Verdict,
    ahead_at_equal_time,
    beside_next_best,
    blocks,
    conclusions,
    edge_share,
    edges,
    moved_by_plateaus,
    overall,
    overturned,
    side,
    two_digits,
)
from benching.workloads import WORKLOADS, Workload
from ganexp.cli.commands.pages.markdown import table
from ganexp.compare.intervals import Interval
from ganexp.documents import atomic_write

EARLIER = "## The earlier study"
"""What stands below this heading of the page stays as it is."""
COLOURS = {"better": "tab:green", "worse": "tab:red", "unclear": "0.45"}
SHADES = {"better": "#8fd18f", "worse": "#f2a3a0", "unclear": "#ececec"}
TITLES = {"adam": "Adam", "sgd": "SGD"}
WITHIN = JUDGEMENTS // BUDGETS
"""How many judgements of a run over twice the budget lie within the budget."""
SHOWN = (0.5, 2.0)
"""The ratios that the figure shows; others lie beyond its panels."""
BEST_OF = (5, 10, POINTS, POINTS + FURTHER)
UNSTABLE = 5
"""Rules that lose at least so many seeds more than `detach` are hatched in the figure."""

ANSWER = """# Which update rule, and when?

Update rules of [the strategies' page](strategies.md), {rules} so far, were each tuned with equally many runs and compared over
{seeds} seeds with `detach`: ordinary alternating training, D first. {scope}

{counts}

{short}
"""

PROTOCOL = """## How rules are compared

Every rule is tuned alike on every workload, separately with {optimisers}:

- **Points.** {points} tuning runs with one seed, at the same quasi-random points for all rules: D's rate over three decades,
  G's rate at 1/5 to 5 times D's, the momentum ({momentum}), and the rule's own coefficients in ranges around the
  values of its paper. {further} further points beyond the ranges of the rates count once every rule has them.
- **Choice.** The point with the lowest mean of the last three of {judgements} evaluations (averaged weights, validation split)
  is run on {seeds} other seeds, and evaluated on the test split.
- **Budget.** All runs of a workload see equally many real samples: a rule that draws two batches for an iteration makes half as
  many iterations.
- **Fixed beforehand**: each rule against `detach`, paired by seed. **Settled later**, with results in view: the correction for
  many comparisons ([power](#power)), some budgets and one penalty ([why](development.md)), what the extension reaches, the
  comparisons at equal time and with the next-best points of `detach`, and that chance and ratio have to agree with p.

The columns of the tables:

- **Distance** to real data at the end of the budget, lower is better: the interquartile mean over seeds, with its 95 % interval
  by bootstrap over seeds; ∞ if more than a quarter of them diverge.
- **× `detach`**: the ratio of these means, with its interval. Over workloads it is the geometric mean, bootstrapped within each
  workload, over those on which both means are finite; "(4 of 5)" says that one is left out, which flatters a rule that diverges
  there. Workloads on which `detach` loses most of its seeds are left out for every rule. FID is the square of a distance, so
  the mean gives its ratios twice the weight. Intervals are not corrected for the number of rules. {floors}
- **Chance**: the probability that a run of the rule ends better than one of `detach`.
- **p**: Wilcoxon's signed-rank test of the logarithms of the ratios, paired by seed, corrected by Holm for all comparisons on
  the workload with the optimiser. A rule is **better** or **worse** (p is bold) if p is below 5 % and ratio and chance point
  the same way, and worse if all its tuning runs diverged; else {seeds} seeds do not decide, and it is **unclear**. Unclear is
  not equal: see *lost*. {caveats}
- **Lost**: seeds that diverged, or ended no better than real data from half of the modes or classes.
- **Target**: how many seeds ever came as close as `detach` does after {target} of its {judgements} evaluations; if more than
  half did, also the median share of the budget that it took.
- **Time** for the budget, × `detach`, raced side by side on an idle machine, with Adam, and used for SGD too. {spread}
- **At equal time**: the ratio when the slower of the two is stopped as the faster one ends, without new tuning. A rule is still
  better, or behind, if the 95 % interval lies on one side of 1; it leaves out the error of the times. It is blank if the rule
  was not timed, or one of the two takes more than ten times as long as the other.
"""

PLATEAUS = """## Learning curves, smaller budgets and spread

Left: interquartile means over the budget; dotted, the target, and dashed, real data. Middle: what fewer tuning runs would have
found, the mean over all choices of so many of the points; a curve begins where every choice has a point that did not diverge.
Right: the share of seeds that end at or below each distance. Shown are `detach`, the three best rules, the middle one and the
worst with a finite distance, and on the right in grey all others.

![Curves over the budget, best-of-n curves, and performance profiles]({picture})
"""

POWER = """## Power

With {seeds} seeds and {comparisons} comparisons, a difference of {effect:.2f} standard deviations of the pairs passes Holm's
strictest step in {power:.0f} % of cases; later steps find smaller ones. For the rule with the median spread, counting only
seeds that did not diverge, this means:

{table}
Holm's correction is for the comparisons of one workload with one optimiser, so that no verdict changes when another workload
is run. That was settled after the first two workloads; before, it was for the whole page. Corrected for all {all} comparisons
so far, {stood} of the {of} verdicts would stand; † marks the p of the others.
"""

TUNING = """## Tuning

{held} of {of} chosen points lie in an outer tenth of a range ({chance:.0f} % of all tried points do); a better one may lie
beyond. {extended} A rule's own ranges are the same on all workloads and are not extended; some
coefficients are tuned with Adam only, and keep their default with SGD. In hindsight two ranges are too narrow: the rate of
`unrolled` ends at 0.1, while its paper takes D's rate, which reaches 3 with SGD; and in the 400 iterations on the ring `topk`
still keeps 48 % of the fakes, however low its nu.

Each point was tried with one seed, and so few points cover three or more settings only thinly: any rule may have better
ones. Intervals and p-values are for the chosen point, and leave out the uncertainty of choosing it. {moved}*Best of n* is the
distance on the validation split that n of the points would have found, the mean over all choices of n; – where all points of a
choice may have diverged.

{luck}### What each rule was tuned to, and what fewer points would have found

{tables}"""

LUCK = """\
All comparisons of a block rest on the one point that was chosen for `detach`: if the choice was unlucky, every rule looks
better. So `detach` was run on the test seeds at its {count} next-best points too (`--runners-up`). {missed}The last column
compares the rules that are better than `detach` with `detach` at all of its points, and shows the ratio whose interval reaches
highest. Their advantage stands where that interval lies below 1: {stood} of {of}{fallen}.

No other rule was run at its next-best points: one may be worse than `detach` only because its own choice was unlucky, whatever
p says.

{table}
"""

LONGER = """## Are the budgets long enough?

`detach` with Adam at points {points} of the space, over twice the budget, on the validation split. Black: the point that is
best at the budget, as in the table. Grey: the other two. Each curve is one run with the tuning seed, so changes of a few
percent mean nothing. A run that gets worse later has been trained for too long, as happens with GANs. The last columns are the
change of the tuned `detach`, over {seeds} seeds, in the last tenth of the budget.

![The distance of detach over two budgets]({picture})

{table}
Where `detach` is still improving, a ratio says which rule is faster, not which one ends better; where it gets worse, the ratio
may only say which rule degrades later.
"""

WORKLOADS_RUN = """## Workloads, and what has been run

Workloads are frozen: [workloads.py](../scripts/benching/workloads.py) has their networks, losses, data and batches, and a
change raises the version. A rule all of whose points diverged has no further runs. A workload on which `detach` failed was
changed until `detach` learns ([why, and what its runs said](development.md)), and one on which it still loses most of its
seeds counts in no table over workloads: the bench does not show where another rule rescues training.

{table}
{made}

```bash
python scripts/bench.py --workloads ring_nonsaturating --extended
python scripts/bench.py --workloads ring_nonsaturating --times
python scripts/bench.py --workloads ring_nonsaturating --longer
python scripts/bench.py --workloads ring_nonsaturating --runners-up
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
[study.csv](study.csv) there brings the other rules along. Each run is a line of that file: point, seed, settings,
core-seconds, and the figures of its {judgements} evaluations. `--times` with the same options races the rule with `detach`, on
an idle machine. A rule that you have changed is another rule: give it another name.
"""


def write(results: Results, page: Path) -> None:
    """Write the page and its figures; what stands below the heading of the earlier study is kept."""
    found = blocks(results)
    page.parent.mkdir(parents=True, exist_ok=True)
    kept = page.read_text().partition(EARLIER)[2] if page.exists() else ""
    pictures = []
    if any(len(block.verdicts) > 1 for block in found):
        for suffix, draw in ((".png", at_a_glance), ("_intervals.png", intervals), ("_curves.png", courses)):
            picture = page.with_name(page.stem + suffix)
            draw(found).savefig(picture, dpi=80)
            pictures.append(picture.name)
    if _runs_over_two_budgets(results):
        over_two_budgets(results).savefig(page.with_name(page.stem + "_budgets.png"), dpi=80)
    written = text(results, found, pictures, f"{page.stem}_budgets.png") + (f"\n{EARLIER}{kept}" if kept else "")
    with atomic_write(page) as file:  # a full disk would otherwise take the earlier study
        file.write(written.encode())


def text(results: Results, found: Sequence[Block], pictures: Sequence[str], of_budgets: str) -> str:
    """Return the page, without the earlier study."""
    said = {"scope": _scope(found), "counts": _counts(found), "short": in_short(found)}
    compared = {one.rule for block in found for one in block.fixed}
    parts = [ANSWER.format(rules=len(compared), seeds=SEEDS, **said)]
    if pictures:
        parts.append(f"![Every rule on every workload: better than detach, worse, or unclear]({pictures[0]})\n")
    parts += [_protocol(results, found), "## What was found\n"]
    parts += [*(_overall(found, name) for name in DIVISIONS), "### On each workload\n", _folded("In words", _said(found))]
    if pictures:
        parts.append(f"![Every rule's distance relative to that of detach, with its interval]({pictures[1]})\n")
    fallen = {(block.name, one.rule) for block, one in overturned(found)}
    parts += [_each_rule(block, fallen) for block in found]
    if pictures:
        parts.append(PLATEAUS.format(picture=pictures[2]))
    parts += [
        _power(found),
        _tuned(results, found),
        _longer(results, found, of_budgets),
        _what_there_is(results),
        OWN.format(judgements=JUDGEMENTS),
    ]
    return "\n".join(filter(None, parts))


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
                colour = SHADES[block.standing(rule)]
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
    colours = f"Green: better. Red: worse. Grey: {SEEDS} seeds do not decide."
    losses = f"Hatched: at least {UNSTABLE} more lost seeds than detach. ∞: more than a quarter of the seeds diverged."
    figure.suptitle(f"{title}.\n{colours} {losses}", fontsize=9)
    return figure


def intervals(found: Sequence[Block]) -> Figure:
    """Draw every rule's ratio to `detach` with its interval, a panel for each block."""
    shown = [block for block in found if len(block.verdicts) > 1]
    tallest = max(len(block.verdicts) for block in shown)
    figure, panels = _panels(len(shown), width=4.2 if len(shown) > 1 else 7, height=1.4 + 0.24 * tallest)
    for axes, block in zip(panels, shown, strict=True):
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
    figure.suptitle("Green: better than detach. Red: worse. Grey: unclear.", fontsize=11)
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
            row[1].plot(budgets, [_best_of(one, n) for n in budgets], **style)
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
    shown = _runs_over_two_budgets(results)
    figure, panels = _panels(len(shown), width=3.2, height=2.4)
    for axes, (workload, runs) in zip(panels, shown.items(), strict=True):
        for line in runs:
            over = np.arange(1, len(line.figures) + 1) / JUDGEMENTS * BUDGETS
            best = line is _best_at_the_budget(runs)
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


def _best_of(one: Verdict, n: int) -> float:
    value = statistics.best_of(one.searched, n)
    return value if math.isfinite(value) else math.nan


def _folded(summary: str, hidden: str) -> str:
    """Return a block that is folded until the reader opens it, on GitHub and on the site alike."""
    return f'<details markdown="1">\n<summary>{summary}</summary>\n\n{hidden}\n</details>\n'


def _protocol(results: Results, found: Sequence[Block]) -> str:
    momentum = "; ".join(
        f"{', '.join(f'{float(one):g}' for one in division.momentum)} with {TITLES[name]}"
        for name, division in DIVISIONS.items()
    )
    return PROTOCOL.format(
        spread=_spread_of_times(results),
        floors=_floors(found),
        caveats=_caveats(found),
        points=POINTS,
        further=FURTHER,
        optimisers=" and ".join(TITLES.values()),
        momentum=momentum,
        judgements=JUDGEMENTS,
        seeds=SEEDS,
        target=TARGET_AT,
    )


def _caveats(found: Sequence[Block]) -> str:
    """Say how many verdicts look otherwise by the interval of the ratio, and how many would be others by another figure."""
    compared = [one for block in found for one in block.fixed]
    if not compared:
        return ""
    off = sum(one.standing == "unclear" and not one.ratio.low <= 1 <= one.ratio.high for one in compared if one.ratio)
    return (
        "The interval of the ratio ignores the best and the worst quarter of the seeds and is not corrected, so "
        f"{off} unclear comparisons have it on one side of 1. By the mean of the last three evaluations, as in the choice, "
        f"{moved_by_plateaus(found)} of {len(compared)} would differ."
    )


def _floors(found: Sequence[Block]) -> str:
    """Say how close real data come, below which no distance is to be expected."""
    floors = {block.workload.name.partition("_")[0]: block.floor for block in found if block.floor is not None}
    said = ", ".join(f"{_number(floor)} on {name}" for name, floor in floors.items())
    return f"Real training data score {said}: near that, ratios understate differences." if said else ""


def _scope(found: Sequence[Block]) -> str:
    """Say on what rules were compared."""
    optimisers = defaultdict(list)
    for block in (block for block in found if block.tells):
        optimisers[f"`{block.workload.name}`"].append(TITLES[block.division])
    workloads = defaultdict(list)
    for name, those in optimisers.items():
        workloads[" and ".join(those)].append(name)
    complete = "; ".join(f"{', '.join(names)} with {those}" for those, names in workloads.items())
    said = f"Complete so far: {complete}." if complete else ""
    begun = ", ".join(
        f"`{block.workload.name}` with {TITLES[block.division]} ({len(block.fixed)} of {block.comparisons} rules)"
        for block in found
        if block.missing and block.fixed
    )
    return f"{said}{f' Begun: {begun}.' if begun else ''}".strip()


def _counts(found: Sequence[Block]) -> str:
    """Say how the fixed comparisons came out."""
    standings = Counter(one.standing for block in found for one in block.fixed)
    standings["worse"] += sum(rule in RULES for block in found for rule in block.lost)
    better, worse, unclear = (standings[name] for name in ("better", "worse", "unclear"))
    beside = [ratio for block in found for ratio in beside_next_best(block).values()]
    stood = sum(ratio.high < 1 for ratio in beside)
    also = (
        f" Of {len(beside)} better ones, {stood} keep an interval below 1 against `detach` at each of its [next-best "
        "points](#tuning); the others may owe their advantage to the point that was chosen for `detach`."
    )
    timed = [one for block in found for one in block.fixed if one.at_time]
    equal_time = [one.at_equal_time for one in timed]
    equal_samples = [side(one.ratio) for one in timed]
    at_time = (
        f" At equal time there is no test, only the interval of the ratio: it lies below 1 for {equal_time.count('better')} of "
        f"{len(timed)} comparisons and above for {equal_time.count('worse')}, against {equal_samples.count('better')} and "
        f"{equal_samples.count('worse')} after equally many samples."
    )
    return (
        f"After equally many samples, {better} of {standings.total()} comparisons find the rule better, {worse} find it worse, "
        f"and {unclear} do not decide.{also if beside else ''}{at_time if timed else ''}"
    )


def in_short(found: Sequence[Block]) -> str:
    """Return the answer in a sentence."""
    divisions = [division for division in DIVISIONS if any(block.division == division and block.tells for block in found)]
    if not divisions:
        return "No workload is complete yet."
    said = []
    for division in divisions:
        telling = [block for block in found if block.division == division and block.tells]
        for rule, names in ahead_at_equal_time(telling, division).items():
            rest = [block for block in telling if block.workload.name not in names and rule in block.pairs]
            behind = sum(
                rule in block.lost or any(one.rule == rule and one.at_equal_time == "worse" for one in block.verdicts)
                for block in rest
            )
            degrading = {block.workload.name for block in telling if block.base.curve[-1] > block.base.curve[-2]}
            where = " and ".join(f"`{name}`{', where `detach` gets worse in the end' * (name in degrading)}" for name in names)
            elsewhere = f"at equal time behind on {behind} of {len(rest)} others"
            said.append(f"`{rule}` with {TITLES[division]} on {where} ({elsewhere})")
    return (
        "Better than `detach` after equally many samples and at equal time, and than `detach` at each of its next-best points: "
        f"{'; '.join(said) or 'no rule'}."
    )


def _spread_of_times(results: Results) -> str:
    """Say by how much the time of a rule differs between workloads."""
    times = [results.times(workload.key) for workload in WORKLOADS.values()]
    known = {rule: [one[rule] for one in times if rule in one] for rule in RULES}
    factors = {rule: max(of) / min(of) for rule, of in known.items() if len(of) > 1}
    if not factors:
        return ""
    rule, factor = max(factors.items(), key=lambda item: item[1])
    middle = float(np.median(list(factors.values())))
    said = f"A rule's times on different workloads span a factor of {middle:.2g} in the median, and {factor:.2g} for `{rule}`"
    little = known["lookahead"]
    if len(little) > 1:
        said += f"; `lookahead`, which adds next to nothing to `detach`, was timed at {min(little):.2f} to {max(little):.2f}"
    return f"{said}."


def _said(found: Sequence[Block]) -> str:
    return "\n".join(conclusions(found) or ["No workload is complete yet."]) + "\n"


def _overall(found: Sequence[Block], division: str) -> str:
    """Return what a reader is to see in ten seconds: every rule over all complete workloads with an optimiser."""
    entries = overall(found, division)
    rows = [
        {
            "rule": f"`{one.rule}`",
            "× `detach`": f"{_of(one.ratio)}{one.share}",
            "chance": f"{one.improvement:.2f}",
            "better, worse, unclear": one.counts,
            "lost": one.losses,
        }
        for one in entries
    ]
    workloads = [f"`{block.workload.name}`" for block in found if block.division == division and block.tells]
    partly = [f"`{one.rule}` ({len(one.standings)})" for one in entries if len(one.standings) < len(workloads)]
    last = f", and last what fits only some of them: {', '.join(partly)}" if partly else ""
    short = f"Over {', '.join(workloads)}; the best chance first{last}."
    return f"### With {TITLES[division]}\n\n{short}\n\n{table(rows)}" if rows else ""


def _each_rule(block: Block, fallen: Collection[tuple[str, str]]) -> str:
    """Return every rule's results in a block; what is missing there can be seen without opening it."""
    unit = f"{block.workload.unit[0].upper()}{block.workload.unit[1:]}"
    unit += "." if block.floor is None else f"; that of real training data is {_number(block.floor)}."
    summary = f"{block.name}{' (not complete)' if block.missing else ''}: every rule's distance, ratio, p, target and time"
    return _folded(summary, f"{unit}{_unfinished(block)}\n\n{_table(block, fallen)}")


def _unfinished(block: Block) -> str:
    said = ""
    if block.missing:
        names = ", ".join(f"`{rule}`" for rule in block.missing)
        said += f" **Not complete**: {names} still to be run."
    if block.lost:
        said += f" Every tuning run diverged for {', '.join(f'`{rule}`' for rule in block.lost)}."
    for rule, why in block.misfits.items():
        said += f" `{rule}` does not fit: {why.partition(': ')[2].partition(': choose')[0] or why}."
    return said


def _table(block: Block, fallen: Collection[tuple[str, str]]) -> str:
    rows = []
    for one in block.verdicts:
        came, taken = np.isfinite(one.reached), float(np.median(one.reached))
        p = f"{one.p:.3f}" if one.p >= 0.001 else "<0.001"
        p = p if one.standing == "unclear" else f"**{p}**{'†' * ((block.name, one.rule) in fallen)}"
        rows.append(
            {
                "rule": f"`{one.rule}`",
                "distance": _of(one.figure),
                "× `detach`": _of(one.ratio) if one.ratio else "1",
                "chance": "" if one.improvement is None else f"{one.improvement:.2f}",
                "p": p if one.ratio else "",
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
        spreads = [statistics.spread(pair) for pair in block.pairs.values()]
        if known := [one for one in spreads if math.isfinite(one)]:
            middle = float(np.median(known))
            ends = math.exp(-effect * middle), math.exp(effect * middle)
            rows.append(
                {
                    "block": block.name,
                    "spread of log ratios": f"{middle:.2f}",
                    "found by the strictest step": f"below {ends[0]:.2f} or above {ends[1]:.2f}",
                }
            )
    verdicts = sum(one.standing != "unclear" for block in found for one in block.fixed)
    fallen = overturned(found)
    return POWER.format(
        seeds=SEEDS,
        comparisons=count,
        effect=effect,
        power=100 * statistics.POWER,
        table=table(rows) if rows else "",
        all=sum(block.comparisons for block in found),
        stood=verdicts - len(fallen),
        of=verdicts,
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
                **{f"best of {n}": _number(_best_of(one, n)) for n in BEST_OF if n <= len(one.searched)},
                "at the edge of the space": ", ".join(f"`{edge}`" if "." in edge else edge for edge in at_ends[one.rule]),
            }
            for one in block.verdicts
        ]
        if rows:
            taken, times = Counter(one.chosen.point for one in block.verdicts).most_common(1)[0]
            parts.append(_folded(f"{block.name}: {times} of {len(rows)} rules were best at point {taken}", table(rows)))
    if not parts:
        return ""
    held = sum(bool(ends) for block in found for ends in edges(block).values())
    of = sum(len(block.verdicts) for block in found)
    return TUNING.format(
        held=held,
        of=of,
        chance=100 * edge_share(found),
        extended=_extended(found),
        moved=_moved(results, found),
        luck=_luck(found),
        tables="\n".join(parts),
    )


def _luck(found: Sequence[Block]) -> str:
    """Return what `detach` reaches at its next-best points, and which rules are better than at all of them."""
    rows = []
    missed = []
    ratios: dict[str, Interval] = {}
    for block in found:
        if not block.runners_up:
            continue
        beside = beside_next_best(block)
        ratios |= {f"`{rule}` ({block.name})": ratio for rule, ratio in beside.items()}
        figures = {number: float(statistics.interquartile_mean(ends)) for number, ends in block.runners_up.items()}
        if min(figures.values()) < block.base.figure.middle:
            missed.append(100 * (1 - min(figures.values()) / block.base.figure.middle))
        rows.append(
            {
                "block": block.name,
                "`detach` as tuned": f"{_number(block.base.figure.middle)} (point {block.base.chosen.point})",
                "at its next-best points": ", ".join(f"{_number(one)} ({number})" for number, one in figures.items()),
                "× the least favourable": ", ".join(f"`{rule}` {_of(ratio)}" for rule, ratio in beside.items()),
            }
        )
    fallen = [name for name, ratio in ratios.items() if ratio.high >= 1]
    by = f"{min(missed):.0f} to {max(missed):.0f} %" if missed else ""
    return (
        LUCK.format(
            count=NEXT_BEST,
            stood=len(ratios) - len(fallen),
            of=len(ratios),
            fallen=f", all but {', '.join(fallen)}" if fallen else "",
            missed=f"In {len(missed)} of {len(rows)} blocks one of these was better, by {by}. " if missed else "",
            table=table(rows),
        )
        if rows
        else ""
    )


def _moved(results: Results, found: Sequence[Block]) -> str:
    """Say how many choices the extension moved, and for how many of these the test split had been looked at before."""
    arms = [
        results.arms[block.workload.key, block.division, one.rule]
        for block in found
        if block.extended
        for one in block.verdicts
    ]
    if not arms:
        return ""
    moved = [arm for arm in arms if arm.chosen(range(POINTS)) != arm.chosen(range(POINTS + FURTHER))]
    again = sum(len({point for point, _ in arm.test}) > 1 for arm in moved)
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


def _longer(results: Results, found: Sequence[Block], picture: str) -> str:
    """Return what twice the budget brings, and how much `detach` still gains at the end of the budget."""
    rows = []
    for workload, runs in _runs_over_two_budgets(results).items():
        best = _best_at_the_budget(runs)
        at_budget, after = best.figures[WITHIN - 1], best.figures[WITHIN:]
        rows.append(
            {
                "workload": f"`{workload.name}`",
                "point": best.point,
                "at the budget": _number(at_budget),
                "lowest after": f"{_number(min(after))} ({round(100 * (min(after) / at_budget - 1)):+d} %)" if after else "",
                "at twice the budget": _number(after[-1]) if best.state == "finished" else "diverged",
            }
            | {
                f"last tenth, {TITLES[division]}": "".join(
                    _change(block.base.curve) for block in found if (block.workload, block.division) == (workload, division)
                )
                for division in DIVISIONS
            }
        )
    points = ", ".join(map(str, TRIED[:-1])) + f" and {TRIED[-1]}"
    return LONGER.format(points=points, picture=picture, table=table(rows), seeds=SEEDS) if rows else ""


def _change(curve: np.ndarray) -> str:
    return f"{round(100 * (curve[-1] / curve[-2] - 1)):+d} %" if np.isfinite(curve[-2:]).all() else "– (diverged)"


def _runs_over_two_budgets(results: Results) -> dict[Workload, list[Line]]:
    """Return the runs that got as far as the budget, by workload."""
    lines = [line for line in results.of_part("longer") if len(line.figures) >= WITHIN]
    found = {workload: [line for line in lines if line.workload == workload.key] for workload in WORKLOADS.values()}
    return {workload: runs for workload, runs in found.items() if runs}


def _best_at_the_budget(runs: Sequence[Line]) -> Line:
    return min(runs, key=lambda line: line.figures[WITHIN - 1])


def _what_there_is(results: Results) -> str:
    rows = []
    for workload in WORKLOADS.values():
        row: dict[str, object] = {
            "workload": f"`{workload.name}`",
            "version": workload.version,
            "real samples": f"{workload.images:,}",
            "distance": workload.unit,
            "for": {"cpu": "CPU", "gpu": "GPU"}[workload.machine],
        }
        for division in DIVISIONS:
            misfits = [rule for of, rule in results.misfits(workload.key) if of == division and rule in RULES]
            numbers = results.numbers(workload.key, division)
            wanted = (len(RULES) - len(misfits)) * (len(numbers) + SEEDS)
            arms = [results.arms[workload.key, division, rule] for rule in RULES]
            done = sum(sum(number in arm.tuning for number in numbers) + _tested(arm, numbers) for arm in arms)
            row[f"runs with {TITLES[division]}"] = f"{done:,} of {wanted:,}" if done else "none"
        rows.append(row)
    hours = sum(line.cpu_s for line in results.lines) / 3600
    made = f"{hours:.1f} hours of one core in all. {_machines(results)}"
    return WORKLOADS_RUN.format(table=table(rows), made=made)


def _machines(results: Results) -> str:
    """Return what made the results, a sentence for each machine and its versions, with the first and the last day."""
    days: dict[str, list[str]] = {}
    for line in results.of_part("machine"):
        day, _, machine = line.said.partition(", ")
        days.setdefault(machine, []).append(day)
    return " ".join(f"{' to '.join(sorted({min(of), max(of)}))}: {machine}." for machine, of in days.items())


def _tested(arm: Arm, points: Sequence[int]) -> int:
    """Return how many of the wanted test runs there are of the best of these points."""
    chosen = arm.chosen(points)
    return min(SEEDS, len(arm.seeds(chosen.point))) if chosen else 0
