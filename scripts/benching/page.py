"""The results as a page in Markdown, with its figures and files of verdicts: all of it is computed from the results.

The sentences and most tables are in study.md.jinja; here is what they say it of.
"""

import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jinja2  # torch brings it along
import numpy as np

from benching import again, contenders, figures, importance, ordering, statistics, tuning, verdicts
from benching.checks import NEXT_BEST, TRIED
from benching.power import power
from benching.results import CHOICE_SEEDS, FINALISTS, Results
from benching.rules import ADDED, KNOWN, RULES
from benching.running import JUDGEMENTS
from benching.schedule import SEEDS
from benching.space import DIVISIONS, FURTHER, POINTS
from benching.verdict_rows import as_csv
from benching.verdicts import Block, Overall, Verdict
from benching.workloads import WORKLOADS, Workload
from ganexp.compare.intervals import Interval
from ganexp.documents import atomic_write

DOCS = Path(__file__).resolve().parents[2] / "docs"
OUTCOMES = {"better": "better", "worse": "worse", "equal": "equal within 10 %", "open": "not decided"}
"""What verdicts are called on the page."""


def write(results: Results, page: Path) -> None:
    """Write the page, its figures and the verdicts."""
    found, second = verdicts.blocks(results), verdicts.blocks(results, again=True)
    page.parent.mkdir(parents=True, exist_ok=True)
    shown = [block for block in found if not block.workload.rescue]
    pictures = []
    if any(len(block.verdicts) > 1 for block in shown):
        for suffix, draw in (
            (".png", figures.at_a_glance),
            ("_intervals.png", figures.intervals),
            ("_curves.png", figures.courses),
        ):
            picture = page.with_name(page.stem + suffix)
            draw(shown).savefig(picture, dpi=80)
            pictures.append(picture.name)
    if figures.runs_over_two_budgets(results):
        figures.over_two_budgets(results).savefig(page.with_name(page.stem + "_budgets.png"), dpi=80)
    shares = importance.read(importance.beside(page))
    if shares:
        figures.choices(shares).savefig(page.with_name(page.stem + "_choices.png"), dpi=100)
    written = text(results, found, second, pictures, page, shares)
    further = {"_verdicts.csv": as_csv(found)} | ({"_verdicts_again.csv": as_csv(second)} if second else {})
    for path, content in ((page, written), *((page.with_name(page.stem + name), content) for name, content in further.items())):
        with atomic_write(path) as file:
            file.write(content.encode())


def text(
    results: Results,
    every: Sequence[Block],
    second: Sequence[Block],
    pictures: Sequence[str],
    page: Path,
    shares: Sequence[importance.Share],
) -> str:
    """Return the page, whose links lead from where it will lie."""
    found = [block for block in every if not block.workload.rescue]
    shown_again = [block for block in second if not block.workload.rescue]
    by_division = {division: verdicts.overall(found, division) for division in DIVISIONS}
    fixed = [one for block in found for one in block.fixed]
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    environment.undefined = jinja2.StrictUndefined
    environment.filters |= {
        "number": _number,
        "interval": _of,
        "two": verdicts.two_digits,
        "rules": _in_code,
        "percent": _percent,
    }
    rendered = environment.from_string(Path(__file__).with_name("study.md.jinja").read_text()).render(
        titles=figures.TITLES,
        outcomes=OUTCOMES,
        points=POINTS,
        further=FURTHER,
        judgements=JUDGEMENTS,
        seeds=SEEDS,
        finalists=FINALISTS,
        choice_seeds=CHOICE_SEEDS,
        next_best=NEXT_BEST,
        tried=TRIED,
        target=verdicts.TARGET_AT,
        divisions=DIVISIONS,
        resamples=statistics.RESAMPLES,
        most=statistics.MOST,
        partial=_rows(block for block in found if not block.complete),
        own_rows=[row for row in _rows(block for block in every if block.complete) if row[1].rule not in KNOWN],
        begun_rows=_begun_rows(results, every),
        docs=lambda name: os.path.relpath(DOCS / name, page.parent),
        lines=os.path.relpath(results.path, page.parent),
        stem=page.stem,
        pictures=pictures,
        every=every,
        found=found,
        compared=len({one.rule for one in fixed}),
        complete=_complete(found),
        below=_beyond(by_division, lambda over: over.high < 1),
        above=_beyond(by_division, lambda over: over.low > 1),
        block=_counts(found, [one.outcome for one in fixed]),
        whole=_counted_over_the_page(found),
        stood=sum(ratio.high < 1 for block in found for ratio in verdicts.beside_next_best(block).values()),
        fallen=[
            f"`{rule}` ({block.name})"
            for block in found
            for rule, ratio in verdicts.beside_next_best(block).items()
            if ratio.high >= 1
        ],
        control=_counts([], [one for block in found for one in verdicts.control(block)]),
        tuned_twice=_counts([], [one for _, one in contenders.outcomes(found, contenders.AGAIN)]),
        twice_again=_counts([], [one for _, one in contenders.outcomes(shown_again, contenders.AGAIN)]),
        twice_apart=contenders.apart(found, contenders.AGAIN),
        r1_stood=contenders.standing_beside_all(found, contenders.WITH_R1),
        r1_again=[one for _, one in contenders.outcomes(shown_again, contenders.WITH_R1)],
        again=again.compared(results, every, second),
        again_complete=_complete(shown_again),
        again_below=_beyond(
            {division: verdicts.overall(shown_again, division) for division in DIVISIONS}, lambda over: over.high < 1
        ),
        added=contenders.rows(every),
        with_r1=[one for _, one in contenders.outcomes(found, contenders.WITH_R1)],
        beside_r1=contenders.beside_r1(every),
        better_than_r1=contenders.better_than_r1(every),
        order=ordering.summary(results),
        choices=importance.told(results, shares),
        ahead=_ahead(found),
        floors={block.workload.name.partition("_")[0]: block.floor for block in found if block.floor is not None},
        spread=_spread_of_times(results),
        overall={division: {one.rule: one for one in entries} for division, entries in by_division.items() if entries},
        power=power(found),
        held=sum(bool(tuning.edges(block)[one.rule]) for block in found for one in block.verdicts),
        edge_share=tuning.edge_share(found),
        moved=tuning.moved(results, found),
        luck=tuning.luck(found),
        budgets=tuning.budgets(results, found),
        of_budgets=f"{page.stem}_budgets.png",
        workloads=_workloads(results),
        not_begun=_not_begun(results),
        hours=sum(line.cpu_s for line in results.lines) / 3600,
        machines=_machines(results),
    )
    return re.sub("\n{3,}", "\n\n", rendered)


def _rows(found: Iterable[Block]) -> list[tuple[Block, Verdict]]:
    return [(block, one) for block in found for one in block.verdicts]


def _begun_rows(results: Results, every: Sequence[Block]) -> list[dict[str, Any]]:
    """Return the rules that have runs and no row, with how many points and seeds there are; those that were added left out."""
    shown = {(block.workload.key, block.division): {one.rule for one in block.verdicts} | {*block.lost} for block in every}
    begun = []
    for workload in (one for one in WORKLOADS.values() if not one.of_order):
        for (key, division, rule), arm in results.arms.items():
            if key == workload.key and arm.tuning and rule not in ADDED and rule not in shown.get((key, division), ()):
                most = max((len(arm.seeds(number)) for number in arm.tuning), default=0)
                begun.append(
                    {"rule": rule, "name": workload.name, "division": division, "points": len(arm.tuning), "seeds": most}
                )
    return begun


def _complete(found: Sequence[Block]) -> dict[str, list[str]]:
    """Return the workloads that are complete and tell, by the optimisers with which they do."""
    optimisers: dict[str, list[str]] = defaultdict(list)
    for block in (block for block in found if block.tells):
        optimisers[block.workload.name].append(figures.TITLES[block.division])
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
    fallen = {id(one) for _, one in verdicts.overturned(found)}
    known = [one for block in found for one in block.fixed]
    return _counts(found, [verdicts.outcome("unclear", one.ratio) if id(one) in fallen else one.outcome for one in known])


def _beyond(by_division: dict[str, list[Overall]], holds: Any) -> dict[str, list[str]]:
    """Return the rules whose interval over workloads lies beyond 1, with the optimisers for which it does."""
    named: dict[str, list[str]] = defaultdict(list)
    for division, entries in by_division.items():
        for one in entries:
            if one.over_workloads and holds(one.over_workloads):
                named[one.rule].append(figures.TITLES[division])
    return named


def _ahead(found: Sequence[Block]) -> list[dict[str, Any]]:
    """Return the cases in which a rule is better at equal time too, and which share of it the end of `detach` explains."""
    cases = []
    telling = [block for block in found if block.tells]
    for division in DIVISIONS:
        for rule, names in verdicts.ahead_at_equal_time(telling, division).items():
            of = [block for block in telling if block.division == division and rule in block.pairs]
            for block in (block for block in of if block.workload.name in names):
                one = next(verdict for verdict in block.verdicts if verdict.rule == rule)
                best = float(statistics.ratio([(one.best, block.base.best)]))
                explained = (best - one.ratio.middle) / (1 - one.ratio.middle) if one.ratio else math.nan
                case = {"block": block, "verdict": one, "best": best, "explained": explained}
                behind = sum(any(v.rule == rule and v.at_equal_time == "worse" for v in b.verdicts) for b in of)
                cases.append(case | {"behind": behind, "of": len(of)})
    return cases


def _spread_of_times(results: Results) -> dict[str, Any] | None:
    """Return by which factor the time of a rule differs between workloads: in the median, and at most."""
    times = [results.times(workload.key) for workload in WORKLOADS.values() if not workload.rescue]
    known = {rule: [one[rule] for one in times if rule in one] for rule in RULES}
    factors = {rule: max(of) / min(of) for rule, of in known.items() if len(of) > 1}
    if not factors:
        return None
    return {"middle": float(np.median(list(factors.values()))), "rule": max(factors, key=factors.__getitem__), "all": factors}


def _not_begun(results: Results) -> list[Workload]:
    begun = {line.workload for line in results.lines if line.part == "tuning" and line.state != "misfit"}
    return [one for one in WORKLOADS.values() if one.key not in begun]


def _workloads(results: Results) -> list[dict[str, Any]]:
    """Return how many runs of the bench's own rules there are on each workload that was begun, and how many are wanted."""
    left_out, rows = _not_begun(results), []
    for workload in (one for one in WORKLOADS.values() if one not in left_out and not one.of_order):
        runs = {}
        for division in DIVISIONS:
            misfits = [rule for of, rule in results.misfits(workload.key) if of == division]
            numbers = results.numbers(workload.key, division)
            done = wanted = 0
            for arm in (results.arms[workload.key, division, rule] for rule in RULES if rule not in misfits):
                tuned, chosen = sum(number in arm.tuning for number in numbers), arm.chosen(numbers)
                done += tuned + (min(SEEDS, len(arm.seeds(chosen.point))) if chosen else 0)
                wanted += len(numbers) + (SEEDS if chosen or tuned < len(numbers) else 0)
            runs[division] = (done, wanted)
        rows.append({"workload": workload, "runs": runs})
    return rows


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
