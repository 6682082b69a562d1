"""Does the momentum matter whatever the rule? Momentums × rules at the same rates and seeds, on the bench's workloads.

    python scripts/momentum.py            # what is missing: 6.5 core-hours of training in all
    python scripts/momentum.py --hours 0  # only the table of what there is
    python scripts/momentum.py --hours 1  # stop after one hour, counted over all calls

Questions, runs and analysis were written down before the first run, in docs/bench.md. Every run is a line of docs/momentum.csv,
written as it ends: the same command goes on wherever it was stopped.
"""

if __name__ == "__main__":
    from ganexp.cli import process

    process.begin()  # while torch is imported

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from benching import paired, paired_analysis, schedule
from benching.results import Results
from benching.running import say_little
from benching.schedule import Plan
from ganexp.documents import refuse_unwritable
from ganexp.facts import UserError
from ganexp.printable import printable

DOCS = Path(__file__).resolve().parent.parent / "docs"
HOURS = 6.5
"""The bound that was set beforehand, in core-hours of training; with the judgements these are about 8."""


def main(arguments: Sequence[str] | None = None) -> Results:
    """Make the missing runs within the bound, say how far they are and what they show, and return them."""
    options = _parser().parse_args(arguments)
    refuse_unwritable(options.results)
    try:
        with FileLock(options.results.with_suffix(".lock")).acquire(blocking=False):
            results = Results(options.results)
            plan = Plan(results, paired.workloads(), paired.rules())
            schedule.run(plan, 1, paired.missing(options.hours))
    except Timeout:
        sys.exit(f"Error: another run of this script writes {options.results}: wait for it, or name another --results.")
    except (UserError, OSError, ValueError) as error:
        sys.exit(f"Error: {printable(str(error).rstrip('.'))}.")
    for workload in plan.workloads:
        wanted = [*paired.runs(workload)]
        print(f"{workload.name}: {sum(line in results for line in wanted):,} of {len(wanted):,} runs.")
    print(f"{paired.spent(results.lines):.2f} core-hours of training.")
    print(paired_analysis.summary(paired_analysis.compared(results)))
    return results


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--hours", type=float, default=HOURS, help=f"core-hours of training after which no run is begun (default {HOURS:g})"
    )
    parser.add_argument("--results", type=Path, default=DOCS / "momentum.csv", help="default docs/momentum.csv")
    return parser


if __name__ == "__main__":
    say_little()
    process.run(main)
