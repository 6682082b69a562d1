"""The results as a page in Markdown, with its figures and files of verdicts: all of it is computed from the results.

The sentences and most tables are in study.md.jinja; here is what they say it of.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2  # torch brings it along
import numpy as np

from benching import again, contenders, ordering, statistics
from benching.checks import NEXT_BEST, TRIED
from benching.figures import (
    TITLES,
    WITHIN,
    at_a_glance,
    best_at_the_budget,
    courses,
    intervals,
    over_two_budgets,
    runs_over_two_budgets,
)
from benching.results import CHOICE_SEEDS, FINALISTS, Arm, Results
from benching.rules import KNOWN, RULES
from benching.running import JUDGEMENTS
from benching.schedule import SEEDS
from benching.space import DIVISIONS, FURTHER, POINTS
from benching.verdict_rows import as_csv
from benching.verdicts import (
    TARGET_AT,
    Block,
    Overall,
    ahead_at_equal_time,
    beside_next_best,
    blocks,
    control,
    edge_share,
    edges,
    moved_by_plateaus,
    outcome,
    overall,
    overturned,
    two_digits,
)
from benching.workloads import WORKLOADS, Workload
from ganexp.cli.commands.pages.markdown import table
from ganexp.compare.intervals import Interval
from ganexp.compare.ranking import ALPHA, holm
from ganexp.documents import atomic_write

OUTCOMES = {"better": "better", "worse": "worse", "equal": "equal within 10 %", "open": "not decided"}
"""What verdicts are called on the page."""


def write(results: Results, page: Path) -> None:
    """Write the page, its figures and the verdicts."""
    found, second = blocks(results), blocks(results, again=True)
    page.parent.mkdir(parents=True, exist_ok=True)
    shown = [block for block in found if not block.workload.rescue]
    pictures = []
    if any(len(block.verdicts) > 1 for block in shown):
        for suffix, draw in ((".png", at_a_glance), ("_intervals.png", intervals), ("_curves.png", courses)):
            picture = page.with_name(page.stem + suffix)
            draw(shown).savefig(picture, dpi=80)
            pictures.append(picture.name)
    if runs_over_two_budgets(results):
        over_two_budgets(results).savefig(page.with_name(page.stem + "_budgets.png"), dpi=80)
    written = text(results, found, second, pictures, f"{page.stem}_budgets.png")
    further = {"_verdicts.csv": as_csv(found)} | ({"_verdicts_again.csv": as_csv(second)} if second else {})
    for path, content in ((page, written), *((page.with_name(page.stem + name), content) for name, content in further.items())):
        with atomic_write(path) as file:
            file.write(content.encode())


def text(results: Results, every: Sequence[Block], second: Sequence[Block], pictures: Sequence[str], of_budgets: str) -> str:
    """Return the page."""
    found = [block for block in every if not block.workload.rescue]
    by_division = {division: overall(found, division) for division in DIVISIONS}
    fixed = [one for block in found for one in block.fixed]
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    environment.undefined = jinja2.StrictUndefined
    environment.filters |= {"number": _number, "interval": _of, "two": two_digits, "rules": _in_code, "percent": _percent}
    rendered = environment.from_string(Path(__file__).with_name("study.md.jinja").read_text()).render(
        titles=TITLES,
        outcomes=OUTCOMES,
        points=POINTS,
        further=FURTHER,
        judgements=JUDGEMENTS,
        seeds=SEEDS,
        finalists=FINALISTS,
        choice_seeds=CHOICE_SEEDS,
        next_best=NEXT_BEST,
        tried=TRIED,
        target=TARGET_AT,
        divisions=DIVISIONS,
        resamples=statistics.RESAMPLES,
        most=statistics.MOST,
        own_rules={one.rule for block in every for one in block.verdicts} - {*KNOWN},
        pictures=pictures,
        every=every,
        found=found,
        compared=len({one.rule for one in fixed}),
        complete=_complete(found),
        below=_beyond(by_division, lambda over: over.high < 1),
        above=_beyond(by_division, lambda over: over.low > 1),
        block=_counts(found, [one.outcome for one in fixed]),
        whole=_counted_over_the_page(found),
        stood=sum(ratio.high < 1 for block in found for ratio in beside_next_best(block).values()),
        fallen=[
            f"`{rule}` ({block.name})" for block in found for rule, ratio in beside_next_best(block).items() if ratio.high >= 1
        ],
        control=_counts([], [one for block in found for one in control(block)]),
        tuned_twice=_counts([], [one for _, one in contenders.outcomes(found, contenders.AGAIN)]),
        again=again.compared(results, every, second),
        again_complete=_complete([block for block in second if not block.workload.rescue]),
        again_below=_beyond(
            {division: overall([block for block in second if not block.workload.rescue], division) for division in DIVISIONS},
            lambda over: over.high < 1,
        ),
        added=contenders.rows(every),
        with_r1=[one for _, one in contenders.outcomes(found, contenders.WITH_R1)],
        beside_r1=contenders.beside_r1(every),
        better_than_r1=contenders.better_than_r1(every),
        order=_order(results),
        ahead=_ahead(found),
        floors={block.workload.name.partition("_")[0]: block.floor for block in found if block.floor is not None},
        spread=_spread_of_times(results),
        table=_every_rule(by_division),
        power=_power(found),
        held=sum(bool(edges(block)[one.rule]) for block in found for one in block.verdicts),
        edge_share=edge_share(found),
        moved=_moved(results, found),
        luck=_luck(found),
        budgets=_budgets(results, found),
        of_budgets=of_budgets,
        workloads=_workloads(results),
        not_begun=_not_begun(results),
        hours=sum(line.cpu_s for line in results.lines) / 3600,
        machines=_machines(results),
    )
    return re.sub("\n{3,}", "\n\n", rendered)


def _complete(found: Sequence[Block]) -> dict[str, list[str]]:
    """Return the workloads that are complete and tell, by the optimisers with which they do."""
    optimisers: dict[str, list[str]] = defaultdict(list)
    for block in (block for block in found if block.tells):
        optimisers[block.workload.name].append(TITLES[block.division])
    workloads: dict[str, list[str]] = defaultdict(list)
    for name, those in optimisers.items():
        workloads[" and ".join(those)].append(name)
    return workloads


def _counts(found: Sequence[Block], known: Sequence[str]) -> dict[str, int]:
    """Count outcomes; of rules that diverged at every point of a block, which are worse, there are none among the known."""
    counts = Counter(known)
    counts["worse"] += sum(rule in RULES for block in found for rule in block.lost)
    return {name: counts[name] for name in OUTCOMES} | {"of": len(known)}


def _counted_over_the_page(found: Sequence[Block]) -> dict[str, int]:
    """Count the verdicts as they would be if p were corrected over all blocks."""
    fallen = {id(one) for _, one in overturned(found)}
    known = [one for block in found for one in block.fixed]
    return _counts(found, [outcome("unclear", one.ratio) if id(one) in fallen else one.outcome for one in known])


def _beyond(by_division: dict[str, list[Overall]], holds: Any) -> dict[str, list[str]]:
    """Return the rules whose interval over workloads lies beyond 1, with the optimisers for which it does."""
    named: dict[str, list[str]] = defaultdict(list)
    for division, entries in by_division.items():
        for one in entries:
            if one.over_workloads and holds(one.over_workloads):
                named[one.rule].append(TITLES[division])
    return named


def _ahead(found: Sequence[Block]) -> list[dict[str, Any]]:
    """Return the cases in which a rule is better at equal time too, and whether `detach` gets worse in the end there."""
    cases = []
    telling = [block for block in found if block.tells]
    for division in DIVISIONS:
        for rule, names in ahead_at_equal_time(telling, division).items():
            of = [block for block in telling if block.division == division and rule in block.pairs]
            for block in (block for block in of if block.workload.name in names):
                one = next(verdict for verdict in block.verdicts if verdict.rule == rule)
                case = {"block": block, "verdict": one, "best": float(statistics.ratio([(one.best, block.base.best)]))}
                behind = sum(any(v.rule == rule and v.at_equal_time == "worse" for v in b.verdicts) for b in of)
                cases.append(case | {"behind": behind, "of": len(of)})
    return cases


def _every_rule(by_division: dict[str, list[Overall]]) -> str:
    """Return the one table: every rule over all complete workloads, with each optimiser."""
    rows: dict[str, dict[str, object]] = {}
    for division, entries in by_division.items():
        for one in entries:
            name = TITLES[division]
            row = rows.setdefault(one.rule, {"rule": f"`{one.rule}`"})
            row[f"× `detach`, {name}"] = f"{_of(one.over_workloads) if one.over_workloads else _number(one.ratio)}{one.share}"
            row[f"chance, {name}"] = f"{one.improvement:.2f}"
            row[f"better, worse, equal, not decided, {name}"] = ", ".join(str(one.outcomes.count(each)) for each in OUTCOMES)
            row[f"lost, {name}"] = one.losses
    columns = dict.fromkeys(key for row in rows.values() for key in row)
    return table([{key: row.get(key, "") for key in columns} for row in rows.values()]) if rows else ""


def _order(results: Results) -> dict[str, Any] | None:
    """Return what is known of the workloads with an L1 term, as a table of workloads by rules, and what Holm leaves of it."""
    found = ordering.standings(results)
    if not found:
        return None
    rows: dict[str, dict[str, object]] = {}
    of_rules = [f"`{rule}`" for rule in dict.fromkeys(one.rule for one in found)]
    for one in found:
        start: dict[str, object] = {"workload": f"`{one.workload.name}`", "digest": one.workload.digest}
        mean = _number(float(statistics.interquartile_mean(one.ends)))
        lost = f", {one.lost} lost" if one.lost else ""
        said = f"× {_of(one.ratio)}, p = {one.p:.2g}" if one.ratio else f"FID {mean}"
        told = f"{said}; {len(one.ends)} seeds{lost}; {one.failed} of {one.points} points failed"
        rows.setdefault(one.workload.name, start | dict.fromkeys(of_rules, ""))[f"`{one.rule}`"] = told
    compared = [one for one in found if one.ratio]
    corrected = zip(compared, holm([one.p for one in compared]), strict=True)
    points: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found:
        points[one.rule] += Counter(failed=one.failed, of=one.points)
    return {
        "table": table([*rows.values()]),
        "compared": len(compared),
        "beyond": [one for one, p in corrected if p < ALPHA],
        "lost": sum(one.lost for one in found),
        "points": points,
    }


def _spread_of_times(results: Results) -> dict[str, Any] | None:
    """Return by which factor the time of a rule differs between workloads: in the median, and at most."""
    times = [results.times(workload.key) for workload in WORKLOADS.values()]
    known = {rule: [one[rule] for one in times if rule in one] for rule in RULES}
    factors = {rule: max(of) / min(of) for rule, of in known.items() if len(of) > 1}
    if not factors:
        return None
    return {"middle": float(np.median(list(factors.values()))), "rule": max(factors, key=factors.__getitem__), "all": factors}


def _power(found: Sequence[Block]) -> dict[str, Any] | None:
    """Return which ratios the comparisons can tell from 1, in the blocks where that is easiest and hardest."""
    known = [one for block in found for one in block.fixed]
    if not known:
        return None
    comparisons = max(block.comparisons for block in found)
    effect = statistics.detectable(SEEDS, comparisons)
    middles = {}
    for block in found:
        spreads = [one for one in map(statistics.spread, block.pairs.values()) if math.isfinite(one)]
        if spreads:
            middles[block.name] = float(np.median(spreads))
    ends = sorted(middles, key=lambda name: middles[name])
    return {
        "comparisons": comparisons,
        "effect": effect,
        "percent": 100 * statistics.POWER,
        "ends": [(name, math.exp(-effect * middles[name]), math.exp(effect * middles[name])) for name in ends],
        "off": sum(one.standing == "unclear" and not one.ratio.low <= 1 <= one.ratio.high for one in known if one.ratio),
        "moved": moved_by_plateaus(found),
        "all": len(known),
    }


def _moved(results: Results, found: Sequence[Block]) -> dict[str, int]:
    """Return how many choices the extension moved, and for how many of these the test split had been looked at before."""
    arms = [
        results.arms[block.workload.key, block.division, one.rule]
        for block in found
        if block.extended
        for one in block.verdicts
    ]
    moved = [arm for arm in arms if arm.chosen(range(POINTS)) != arm.chosen(range(POINTS + FURTHER))]
    return {"of": len(arms), "moved": len(moved), "again": sum(len({point for point, _ in arm.test}) > 1 for arm in moved)}


def _luck(found: Sequence[Block]) -> list[dict[str, Any]]:
    """Return what `detach` reaches at its next-best points, and which rules are better than at all of them, by block."""
    rows = []
    for block in (block for block in found if block.runners_up):
        figures = {number: float(statistics.interquartile_mean(ends)) for number, ends in block.runners_up.items()}
        missed = 100 * (1 - min(figures.values()) / block.base.figure.middle)
        rows.append({"block": block, "figures": figures, "missed": missed, "beside": beside_next_best(block)})
    return rows


def _budgets(results: Results, found: Sequence[Block]) -> list[dict[str, Any]]:
    """Return what twice the budget brings, and how much `detach` still gains at the end of the budget, by workload."""
    rows = []
    for workload, runs in runs_over_two_budgets(results).items():
        if found and workload not in [block.workload for block in found]:
            continue
        of = {block.division: block.base.curve[-2:] for block in found if block.workload == workload}
        change = {division: curve[1] / curve[0] - 1 if np.isfinite(curve).all() else math.nan for division, curve in of.items()}
        best = best_at_the_budget(runs)
        at_budget, after = best.figures[WITHIN - 1], best.figures[WITHIN:]
        rows.append({"workload": workload, "best": best, "at_budget": at_budget, "after": after, "change": change})
    return rows


def _not_begun(results: Results) -> list[Workload]:
    begun = {line.workload for line in results.lines if line.part == "tuning" and line.state != "misfit"}
    return [one for one in WORKLOADS.values() if one.key not in begun]


def _workloads(results: Results) -> list[dict[str, Any]]:
    """Return how many runs of each workload that was begun there are, and how many are wanted, by optimiser."""
    left_out, rows = _not_begun(results), []
    for workload in (one for one in WORKLOADS.values() if one not in left_out and not one.of_order):
        runs = {}
        for division in DIVISIONS:
            misfits = [rule for of, rule in results.misfits(workload.key) if of == division]
            fitting = [one for one in KNOWN if one not in misfits]
            numbers = results.numbers(workload.key, division)
            arms = [results.arms[workload.key, division, rule] for rule in fitting]
            done = sum(sum(number in arm.tuning for number in numbers) + _tested(arm, numbers) for arm in arms)
            runs[division] = (done, len(fitting) * (len(numbers) + SEEDS))
        rows.append({"workload": workload, "runs": runs})
    return rows


def _tested(arm: Arm, points: Sequence[int]) -> int:
    """Return how many of the wanted test runs there are of the best of these points."""
    chosen = arm.chosen(points)
    return min(SEEDS, len(arm.seeds(chosen.point))) if chosen else 0


def _machines(results: Results) -> dict[str, list[str]]:
    """Return the days on which each machine, with its versions, made results."""
    days: dict[str, list[str]] = {}
    for line in results.of_part("machine"):
        day, _, machine = line.said.partition(", ")
        days.setdefault(machine, []).append(day)
    return days


def _of(interval: Interval) -> str:
    low, middle, high = (_number(end) for end in (interval.low, interval.middle, interval.high))
    return f"{middle} [{low}, {high}]"


def _number(value: float) -> str:
    return "∞" if value > 1e6 else "–" if math.isnan(value) else f"{value:.3g}"


def _percent(change: float) -> str:
    return "– (diverged)" if math.isnan(change) else f"{round(100 * change):+d} %"


def _in_code(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
