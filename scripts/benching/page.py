"""The results as a page in Markdown, with its figures and a file of verdicts: all of it is computed from the results.

The sentences are in study.md.jinja; here are the figures that stand in them.
"""

import csv
import io
import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2  # torch brings it along
import numpy as np

from benching import NAME, RELEASE, again, contenders, ordering, statistics
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
from benching.verdicts import (
    TARGET_AT,
    Block,
    Overall,
    Verdict,
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

EARLIER = "## The earlier study"
"""What stands below this heading of the page stays as it is."""
OUTCOMES = {"better": "better", "worse": "worse", "equal": "equal within 10 %", "open": "not decided"}
"""What verdicts are called on the page."""


def write(results: Results, page: Path) -> None:
    """Write the page, its figures and the verdicts; what stands below the heading of the earlier study is kept."""
    found, second = blocks(results), blocks(results, again=True)
    page.parent.mkdir(parents=True, exist_ok=True)
    kept = page.read_text().partition(EARLIER)[2] if page.exists() else ""
    shown = [block for block in found if not block.workload.rescue]
    pictures = []
    if any(len(block.verdicts) > 1 for block in shown):
        for suffix, draw in ((".png", at_a_glance), ("_intervals.png", intervals), ("_curves.png", courses)):
            picture = page.with_name(page.stem + suffix)
            draw(shown).savefig(picture, dpi=80)
            pictures.append(picture.name)
    if runs_over_two_budgets(results):
        over_two_budgets(results).savefig(page.with_name(page.stem + "_budgets.png"), dpi=80)
    written = text(results, found, second, pictures, f"{page.stem}_budgets.png") + (f"\n{EARLIER}{kept}" if kept else "")
    further = {"_verdicts.csv": verdicts(found)} | ({"_verdicts_again.csv": verdicts(second)} if second else {})
    for path, content in ((page, written), *((page.with_name(page.stem + name), content) for name, content in further.items())):
        with atomic_write(path) as file:  # a full disk would otherwise take the earlier study
            file.write(content.encode())


def text(results: Results, every: Sequence[Block], second: Sequence[Block], pictures: Sequence[str], of_budgets: str) -> str:
    """Return the page, without the earlier study."""
    found = [block for block in every if not block.workload.rescue]
    by_division = {division: overall(found, division) for division in DIVISIONS}
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True).from_string(
        Path(__file__).with_name("study.md.jinja").read_text()
    )
    rendered = template.render(
        outcomes=OUTCOMES,
        compared=len({one.rule for block in found for one in block.fixed}),
        scope=_scope(found),
        complete=any(by_division.values()),
        workloads_told=len({block.workload.name for block in found if block.tells}),
        below=_beyond(by_division, lambda over: over.high < 1),
        above=_beyond(by_division, lambda over: over.low > 1),
        block=_counts(found, [one.outcome for block in found for one in block.fixed]),
        whole=_counted_over_the_page(found),
        stood=sum(ratio.high < 1 for block in found for ratio in beside_next_best(block).values()),
        timed=sum(len(names) for division in DIVISIONS for names in _ahead(found, division).values()),
        control=_control(found),
        tuned_twice=_tuned_twice(found),
        again=again.compared(results, every, second),
        finalists=FINALISTS,
        choice_seeds=CHOICE_SEEDS,
        contenders=_contenders(every),
        r1=_r1(found),
        order=_order(results),
        bench=NAME,
        release=RELEASE,
        large=_large(),
        ahead=_said_ahead(found),
        pictures=pictures,
        points=POINTS,
        further=FURTHER,
        judgements=JUDGEMENTS,
        seeds=SEEDS,
        resamples=f"{statistics.RESAMPLES:,}",
        most=f"{statistics.MOST:g}",
        target=TARGET_AT,
        momentum="; ".join(
            f"{', '.join(f'{float(one):g}' for one in division.momentum)} with {TITLES[name]}"
            for name, division in DIVISIONS.items()
        ),
        floors=_floors(found),
        spread=_spread_of_times(results),
        table=_every_rule(by_division),
        counted_over=_counted_over(found),
        rescue=_rescue([block for block in every if block.workload.rescue]),
        power=_power(found),
        tuning=_tuning(found),
        extended=_extended(found),
        moved=_moved(results, found),
        next_best=NEXT_BEST,
        luck=_luck(found),
        tried=", ".join(map(str, TRIED[:-1])) + f" and {TRIED[-1]}",
        budgets=_budgets(results, found, of_budgets),
        own=_own(every),
        workloads=_workloads(results),
        not_begun=", ".join(f"`{one.name}`" for one in _not_begun(results)),
        hours=f"{sum(line.cpu_s for line in results.lines) / 3600:.1f}",
        machines=_machines(results),
    )
    return re.sub("\n{3,}", "\n\n", rendered)


def verdicts(found: Sequence[Block]) -> str:
    """Return every rule's figures in every block as a CSV file."""
    file = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for block in found:
        at_ends = edges(block)
        fallen = {one.rule for of, one in overturned(found) if of is block}
        for one in (*block.verdicts, *block.added):
            row: dict[str, Any] = {"workload": block.workload.key, "optimizer": block.division, "rule": one.rule}
            row |= _ends("distance", one.figure) | _ends("ratio", one.ratio)
            row |= {
                "chance": "" if one.improvement is None else f"{one.improvement:.3g}",
                "p": f"{one.p:.3g}" if one.ratio else "",
                "verdict": one.outcome if one.ratio else "",
                "stands_over_the_page": "" if one.standing == "unclear" else "no" if one.rule in fallen else "yes",
                "lost": one.lost,
                "reached_target": int(np.isfinite(one.reached).sum()),
                "time": f"{one.time:.3g}" if math.isfinite(one.time) else "",
            }
            row |= _ends("at_equal_time", one.at_time)
            row |= {"point": one.chosen.point, "settings": one.chosen.said, "at_the_edge": " ".join(at_ends[one.rule])}
            if writer is None:
                writer = csv.DictWriter(file, list(row), lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)
    return file.getvalue()


def _ends(name: str, interval: Interval | None) -> dict[str, str]:
    ends = (interval.middle, interval.low, interval.high) if interval else ()
    return dict.fromkeys((name, f"{name}_low", f"{name}_high"), "") | {
        key: f"{end:.4g}" for key, end in zip((name, f"{name}_low", f"{name}_high"), ends, strict=False)
    }


def _counts(found: Sequence[Block], outcomes: Sequence[str]) -> dict[str, int]:
    counts = Counter(outcomes)
    counts["worse"] += sum(rule in RULES for block in found for rule in block.lost)
    return {name: counts[name] for name in OUTCOMES}


def _counted_over_the_page(found: Sequence[Block]) -> dict[str, int]:
    """Count the verdicts as they would be if p were corrected over all blocks."""
    fallen = {id(one) for _, one in overturned(found)}
    known = [one for block in found for one in block.fixed]
    return _counts(found, [outcome("unclear", one.ratio) if id(one) in fallen else one.outcome for one in known])


def _control(found: Sequence[Block]) -> dict[str, int]:
    outcomes = [one for block in found for one in control(block)]
    return _counts([], outcomes) | {"of": len(outcomes)}


def _tuned_twice(found: Sequence[Block]) -> dict[str, int]:
    outcomes = [one for _, one in contenders.outcomes(found, contenders.AGAIN)]
    return _counts([], outcomes) | {"of": len(outcomes)}


def _contenders(found: Sequence[Block]) -> dict[str, str] | None:
    """Return the tables of the added rules, and of the rules that add a penalty beside `detach` with R1."""
    rows = [{key: _of(one) if isinstance(one, Interval) else one for key, one in row.items()} for row in contenders.rows(found)]
    beside: dict[str, dict[str, str]] = defaultdict(lambda: dict.fromkeys(f"`{rule}`" for rule in contenders.REGULARISED))
    for rule, of in contenders.beside_r1(found).items():
        for name, ratio, p in of:
            beside[name][f"`{rule}`"] = f"{_of(ratio)}, p = {p:.2g}"
    better = {name: ", ".join(f"`{rule}`" for rule in rules) for name, rules in contenders.better_than_r1(found).items()}
    told = [{"block": name} | row | {"better than `detach_r1`": better[name] or "none"} for name, row in beside.items()]
    return {"table": table(rows), "beside": table(told) if told else ""} if rows else None


def _r1(found: Sequence[Block]) -> dict[str, Any] | None:
    """Say how often `detach` with R1 is better than `detach`, and how often rules that add a penalty are better than both."""
    outcomes = [one for _, one in contenders.outcomes(found, contenders.WITH_R1)]
    beside = contenders.beside_r1(found)
    said = [
        f"`{rule}` is better than that in {sum(ratio.high < 1 for _, ratio, _ in of)} and worse in "
        f"{sum(ratio.low > 1 for _, ratio, _ in of)} of {len(of)}"
        for rule, of in beside.items()
    ]
    return {"better": outcomes.count("better"), "of": len(outcomes), "beside": ", ".join(said)} if said else None


def _order(results: Results) -> dict[str, Any] | None:
    """Return the table of the workloads with an L1 term: a row for each, with a column for every rule."""
    found = ordering.standings(results)
    rows: dict[str, dict[str, object]] = {}
    for one in found:
        row = rows.setdefault(one.workload.name, {"workload": f"`{one.workload.name}`", "digest": one.workload.digest})
        mean = _number(float(statistics.interquartile_mean(one.ends)))
        lost = f", {one.lost} lost" if one.lost else ""
        said = f"× {_of(one.ratio)}, p = {one.p:.2g}" if one.ratio else f"FID {mean}"
        row[f"`{one.rule}`"] = f"{said}; {len(one.ends)} seeds{lost}; {one.failed} of {one.points} points failed"
    columns = dict.fromkeys(key for row in rows.values() for key in row)
    if not rows:
        return None
    compared = [one for one in found if one.ratio]
    corrected = holm([one.p for one in compared])
    beyond = [one for one, p in zip(compared, corrected, strict=True) if p < ALPHA]
    return {
        "table": table([{key: row.get(key, "") for key in columns} for row in rows.values()]),
        "compared": len(compared),
        "beyond": ", ".join(f"`{one.rule}` on `{one.workload.name}`" for one in beyond),
        "lost": sum(one.lost for one in found),
        "failed": {
            rule: (sum(one.failed for one in found if one.rule == rule), sum(one.points for one in found if one.rule == rule))
            for rule in dict.fromkeys(one.rule for one in found)
        },
    }


def _large() -> str:
    """Name the workloads for a GPU, with their budgets."""
    return " and ".join(
        f"`{one.name}` ({one.images / 1e6:g} million real images a run)" for one in WORKLOADS.values() if one.machine == "gpu"
    )


def _not_begun(results: Results) -> list[Workload]:
    begun = {line.workload for line in results.lines if line.part == "tuning" and line.state != "misfit"}
    return [one for one in WORKLOADS.values() if one.key not in begun]


def _ahead(found: Sequence[Block], division: str) -> dict[str, list[str]]:
    return ahead_at_equal_time([block for block in found if block.tells], division)


def _said_ahead(found: Sequence[Block]) -> str:
    """Say which rules are better at equal time too, and whether `detach` gets worse in the end there."""
    said = []
    for division in DIVISIONS:
        for rule, names in _ahead(found, division).items():
            of = [block for block in found if block.division == division and block.tells and rule in block.pairs]
            for block in (block for block in of if block.workload.name in names):
                one = next(verdict for verdict in block.verdicts if verdict.rule == rule)
                behind = sum(any(v.rule == rule and v.at_equal_time == "worse" for v in b.verdicts) for b in of)
                best = float(statistics.ratio([(one.best, block.base.best)]))
                before, end = block.base.curve[-2:]
                said.append(
                    f"Better at equal time as well: `{rule}` with {TITLES[division]} on `{block.workload.name}` (× "
                    f"{two_digits(one.ratio.middle) if one.ratio else '1'} after equally many samples).\n"
                    f"That `detach` gets worse in the last tenth of its budget, from {before:.3g} to {end:.3g}, explains "
                    f"little: with the best evaluation of every seed\nthe ratio is still {best:.3g}. At equal time the rule is "
                    f"behind on {behind} of {len(of)} workloads."
                )
    return "\n".join(said) or "No rule is better at equal time as well."


def _beyond(by_division: dict[str, list[Overall]], holds: Any) -> str:
    """Name the rules whose interval over workloads lies beyond 1."""
    named: dict[str, list[str]] = defaultdict(list)
    for division, entries in by_division.items():
        for one in entries:
            if one.over_workloads and holds(one.over_workloads):
                named[f"`{one.rule}`"].append(TITLES[division])
    return " and ".join(f"that of {rule} (with {' and '.join(of)})" for rule, of in named.items())


def _scope(found: Sequence[Block]) -> str:
    """Say on what rules were compared."""
    optimisers = defaultdict(list)
    for block in (block for block in found if block.tells):
        optimisers[f"`{block.workload.name}`"].append(TITLES[block.division])
    workloads = defaultdict(list)
    for name, those in optimisers.items():
        workloads[" and ".join(those)].append(name)
    complete = "; ".join(f"{', '.join(names)} with {those}" for those, names in workloads.items())
    begun = ", ".join(
        f"`{block.workload.name}` with {TITLES[block.division]} ({len(block.fixed)} of {block.comparisons} rules)"
        for block in found
        if not block.complete and block.fixed
    )
    said = f"Complete so far: {complete}." if complete else "No workload is complete yet."
    return f"{said}{f' Begun: {begun}.' if begun else ''}"


def _counted_over(found: Sequence[Block]) -> str:
    numbers = {TITLES[name]: sum(block.division == name and block.tells for block in found) for name in DIVISIONS}
    return f"Over {' and '.join(f'{number} workloads with {name}' for name, number in numbers.items() if number)}."


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


def _rescue(found: Sequence[Block]) -> dict[str, Any] | None:
    if not found:
        return None
    entries = [
        {
            "optimiser": TITLES[block.division],
            "lost": block.base.lost,
            **{name: _named([one for one in block.verdicts if one.standing == name]) for name in ("better", "worse")},
        }
        for block in found
    ]
    return {"name": found[0].workload.name, "blocks": entries}


def _named(found: Sequence[Verdict]) -> str:
    return ", ".join(f"`{one.rule}` (× {two_digits(one.ratio.middle)})" for one in found if one.ratio) or "none"


def _own(found: Sequence[Block]) -> str:
    """Return what rules beside the bench's own have reached so far, block by block."""
    rows = [
        {
            "rule": f"`{one.rule}`",
            "block": block.name,
            "distance": _of(one.figure),
            "× `detach`, over seeds": _of(one.ratio),
            "chance": f"{one.improvement:.2f}",
            "p": f"{one.p:.3g}",
            "lost": one.lost,
        }
        for block in found
        for one in block.verdicts
        if one.rule not in KNOWN and one.ratio
    ]
    return table(rows) if rows else ""


def _floors(found: Sequence[Block]) -> str:
    """Say how close real data come, below which no distance is to be expected."""
    floors = {block.workload.name.partition("_")[0]: block.floor for block in found if block.floor is not None}
    said = ", ".join(f"{_number(floor)} on {name}" for name, floor in floors.items())
    return f"Real training data score {said}: near that, ratios understate differences." if said else ""


def _spread_of_times(results: Results) -> str:
    """Say by how much the time of a rule differs between workloads."""
    times = [results.times(workload.key) for workload in WORKLOADS.values()]
    known = {rule: [one[rule] for one in times if rule in one] for rule in RULES}
    factors = {rule: max(of) / min(of) for rule, of in known.items() if len(of) > 1}
    if not factors:
        return ""
    rule, factor = max(factors.items(), key=lambda item: item[1])
    middle = float(np.median(list(factors.values())))
    return f"A rule's times on different workloads span a factor of {middle:.2g} in the median, and {factor:.2g} for `{rule}`."


def _power(found: Sequence[Block]) -> dict[str, object] | None:
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
    found_by = [f"below {math.exp(-effect * middles[n]):.2f} or above {math.exp(effect * middles[n]):.2f} ({n})" for n in ends]
    return {
        "comparisons": comparisons,
        "effect": f"{effect:.2f}",
        "percent": f"{100 * statistics.POWER:.0f}",
        "finest": found_by[0] if found_by else "",
        "coarsest": found_by[-1] if found_by else "",
        "off": sum(one.standing == "unclear" and not one.ratio.low <= 1 <= one.ratio.high for one in known if one.ratio),
        "moved": moved_by_plateaus(found),
        "all": len(known),
    }


def _tuning(found: Sequence[Block]) -> dict[str, object] | None:
    of = sum(len(block.verdicts) for block in found)
    held = sum(bool(edges(block)[one.rule]) for block in found for one in block.verdicts)
    return {"held": held, "of": of, "share": f"{100 * edge_share(found):.0f}"} if of else None


def _extended(found: Sequence[Block]) -> str:
    said = (
        f"The {FURTHER} points of `--extended` go a decade beyond the range of D's rate and a factor of five beyond that of "
        "the ratio, at either end"
    )
    if without := ", ".join(block.name for block in found if not block.extended):
        return f"{said}; they count in a block once all rules have them, which is not so yet for {without}."
    return f"{said}, and the edges are those of the wider ranges."


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
        "before."
    )


def _luck(found: Sequence[Block]) -> dict[str, object] | None:
    """Return what `detach` reaches at its next-best points, and which rules are better than at all of them."""
    rows, missed = [], []
    ratios: dict[str, Interval] = {}
    for block in (block for block in found if block.runners_up):
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
    said = {
        "stood": len(ratios) - len(fallen),
        "of": len(ratios),
        "fallen": f", all but that of {', '.join(fallen)}" if fallen else "",
        "missed": f"In {len(missed)} of {len(rows)} blocks one of these was better, by {by}. " if missed else "",
    }
    return said | {"table": table(rows)} if rows else None


def _budgets(results: Results, found: Sequence[Block], picture: str) -> dict[str, str] | None:
    """Return what twice the budget brings, and how much `detach` still gains at the end of the budget."""
    rows = []
    for workload, runs in runs_over_two_budgets(results).items():
        if found and workload not in [block.workload for block in found]:
            continue
        best = best_at_the_budget(runs)
        at_budget, after = best.figures[WITHIN - 1], best.figures[WITHIN:]
        row = {
            "workload": f"`{workload.name}`",
            "point": best.point,
            "at the budget": _number(at_budget),
            "lowest after": f"{_number(min(after))} ({round(100 * (min(after) / at_budget - 1)):+d} %)" if after else "",
            "at twice the budget": _number(after[-1]) if best.state == "finished" else "diverged",
        }
        for division in DIVISIONS:
            of = [block for block in found if (block.workload, block.division) == (workload, division)]
            row[f"last tenth, {TITLES[division]}"] = "".join(_change(block.base.curve) for block in of)
        rows.append(row)
    return {"picture": picture, "table": table(rows)} if rows else None


def _change(curve: np.ndarray) -> str:
    return f"{round(100 * (curve[-1] / curve[-2] - 1)):+d} %" if np.isfinite(curve[-2:]).all() else "– (diverged)"


def _workloads(results: Results) -> str:
    rows = []
    left_out = _not_begun(results)
    for workload in (one for one in WORKLOADS.values() if one not in left_out and not one.of_order):
        row: dict[str, object] = {
            "workload": f"`{workload.name}`",
            "version": workload.version,
            "digest": workload.digest,
            "real samples": f"{workload.images:,}",
            "distance": workload.unit,
        }
        for division in DIVISIONS:
            misfits = [rule for of, rule in results.misfits(workload.key) if of == division]
            rules = [one for one in KNOWN if one not in misfits]
            numbers = results.numbers(workload.key, division)
            wanted = len(rules) * (len(numbers) + SEEDS)
            arms = [results.arms[workload.key, division, rule] for rule in rules]
            done = sum(sum(number in arm.tuning for number in numbers) + _tested(arm, numbers) for arm in arms)
            row[f"runs with {TITLES[division]}"] = f"{done:,} of {wanted:,}" if done else "none"
        rows.append(row)
    return table(rows) if rows else ""


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


def _of(interval: Interval) -> str:
    low, middle, high = (_number(end) for end in (interval.low, interval.middle, interval.high))
    return f"{middle} [{low}, {high}]"


def _number(value: float) -> str:
    return "∞" if value > 1e6 else "–" if math.isnan(value) else f"{value:.3g}"
