"""The bench of update rules: tunes every rule in the same way, runs it over seeds, and writes docs/study.md.

    python scripts/bench.py                        # everything that is missing on the CPU workloads; days of two cores
    python scripts/bench.py --workloads ring_nonsaturating --rules detach joint consensus
    python scripts/bench.py --rule mine.Rule --tune gamma=0.01..10  # a rule of one's own, beside the others
    python scripts/bench.py --longer               # are the budgets long enough? detach over two of them
    python scripts/bench.py --runners-up           # was detach tuned luckily? its next-best points on the test seeds
    python scripts/bench.py --again                # choose among the three best points of every rule by four more seeds
    python scripts/bench.py --choices              # how much each choice explains of the runs so far: rates, momentum, rule
    python scripts/bench.py --page-only            # only the page, from the results so far
    python scripts/tables.py                       # then: what README.md and docs/strategies.md say of the results

Every run is a line of docs/study.csv, written as it ends: the same command goes on wherever it was stopped, and a rule that is
there is not run again. The bench says at the start how long it will take, and gives way to whatever else runs.
"""

if __name__ == "__main__":
    from ganexp.cli import process

    process.begin()  # while torch is imported

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout

from benching import checks, importance, page, schedule, timing
from benching.results import Results
from benching.rules import BASE, KNOWN, RULES, own
from benching.running import say_little
from benching.schedule import SEEDS, Plan
from benching.space import DIVISIONS, POINTS
from benching.workloads import WORKLOADS
from ganexp.documents import refuse_unwritable
from ganexp.facts import UserError
from ganexp.printable import printable

DOCS = Path(__file__).resolve().parent.parent / "docs"


def main(arguments: Sequence[str] | None = None) -> Path:
    """Make the missing runs, and return the path of the page."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.tune and not options.rule:
        parser.error("--tune says what --rule is tuned by: name that as well; ranges of the bench's own rules are fixed")
    if options.rule and options.rules != list(KNOWN):
        parser.error("--rule is run beside detach alone: leave out --rules")
    for path in (options.results, options.page):
        refuse_unwritable(path)
    sys.path.insert(0, str(Path.cwd()))  # where a rule of one's own is
    try:
        rules = [KNOWN[name] for name in options.rules]
        if options.rule:
            rules = [RULES[BASE], own(options.rule, options.tune)]
        results = Results(options.results)
    except ValueError as error:
        sys.exit(f"Error: {printable(error)}.")
    workloads = [
        replace(one, overrides=(*one.overrides, *options.further), images=options.images or one.images)
        for one in (WORKLOADS[name] for name in options.workloads)
    ]
    if (options.page_only or options.choices) and not results.lines:
        sys.exit(f"Error: there are no results in {options.results}: name the file with --results.")
    if options.choices:
        importance.write(importance.beside(options.page), importance.measured(results))
    elif not options.page_only:
        lock = FileLock(options.results.with_suffix(".lock"))
        try:
            with lock.acquire(blocking=False):
                results = Results(options.results)  # again: another bench may have ended since
                plan = Plan(results, workloads, rules, options.divisions, options.points, options.seeds, options.extended)
                _run(plan, options)
        except Timeout:
            sys.exit(f"Error: another bench writes {options.results}: wait for it, or name another file with --results.")
        except (UserError, OSError) as error:
            sys.exit(f"Error: {printable(error)}")
    if options.dry_run:
        return Path(options.page)
    page.write(results, options.page)
    print(f"Written to {options.page}")
    return Path(options.page)


def _run(plan: Plan, options: argparse.Namespace) -> None:
    if options.times:
        timing.measure(plan)
        return
    if options.wanted:
        schedule.run(plan, options.jobs, options.wanted)
        return
    print(f"Trying each of {len(plan.rules)} rules for some iterations, to say how long the runs will take …", flush=True)
    minutes = plan.seconds() / 60 / options.jobs
    about = f"{minutes / 60:.2g} hours" if minutes >= 60 else f"{minutes:.2g} minutes"
    missing = plan.missing()
    print(
        f"{missing:,} runs are missing: about {about}, with {options.jobs} at a time, and a little for judging.",
        flush=True,
    )
    if plan.points < POINTS or plan.seeds < SEEDS:
        print(f"The page shows rules with all of {POINTS} points and {SEEDS} seeds: these runs are a beginning.", flush=True)
    if not options.dry_run:
        plan.results.append(*plan.misfits)
        schedule.run(plan, options.jobs)


def _positive(typed: str) -> int:
    if not typed.isdecimal() or not int(typed):
        raise argparse.ArgumentTypeError(f"should be a number of at least 1, not {typed}")
    return int(typed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    small = [workload.name for workload in WORKLOADS.values() if workload.machine == "cpu"]
    parser.add_argument(
        "--workloads", nargs="+", default=small, choices=WORKLOADS, metavar="NAME", help=f"of {', '.join(WORKLOADS)}"
    )
    parser.add_argument("--rules", nargs="+", default=list(KNOWN), choices=KNOWN, metavar="NAME", help=f"of {', '.join(KNOWN)}")
    parser.add_argument("--rule", metavar="MODULE.NAME", help="a strategy or wrapper of one's own, instead of --rules")
    parser.add_argument("--tune", nargs="+", default=[], metavar="KEY=LOW..HIGH", help="what --rule is tuned by")
    parser.add_argument("--divisions", nargs="+", default=list(DIVISIONS), choices=DIVISIONS, help="optimisers (default: both)")
    parser.add_argument(
        "--points",
        type=int,
        default=POINTS,
        choices=range(1, POINTS + 1),
        metavar="N",
        help=f"of tuning (default {POINTS}); those of --extended come on top where the results have them",
    )
    parser.add_argument("--seeds", type=_positive, default=SEEDS, metavar="N", help=f"of the test (default {SEEDS})")
    parser.add_argument("--extended", action="store_true", help="also try the points beyond the ranges of the rates")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--times", action="store_true", help="only measure the times, side by side; on an idle machine")
    for word, wanted, meaning in (
        ("--longer", checks.longer, "train detach for two budgets, to see whether one is enough"),
        ("--again", checks.chosen_again, "choose among the three best points of every rule by four more seeds"),
        ("--runners-up", checks.runners_up, "run detach at its next-best points, to see whether it was tuned luckily"),
    ):
        only.add_argument(word, dest="wanted", action="store_const", const=wanted, help=f"only {meaning}")
    parser.add_argument("--jobs", type=_positive, default=2, help="runs at a time, of one thread each (default 2)")
    parser.add_argument("--results", type=Path, default=DOCS / "study.csv", help="default docs/study.csv")
    parser.add_argument("--page", type=Path, default=DOCS / "study.md", help="default docs/study.md")
    only.add_argument("--page-only", action="store_true", help="run nothing")
    only.add_argument("--choices", action="store_true", help="run nothing; measure how much each choice explains, in minutes")
    only.add_argument("--dry-run", action="store_true", help="only say how long it would take")
    parser.add_argument("--images", type=_positive, help=argparse.SUPPRESS)
    parser.add_argument("--further", nargs="+", default=[], metavar="KEY=VALUE", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    say_little()
    process.run(main)
