"""Which strategy should one use with which loss, and where does it not matter? Tunes, trains and writes docs/study.md.

    python scripts/study.py                             # two hours of two cores; docs/study.md
    python scripts/study.py --settings ring --losses hinge lsgan --folder outputs/ring  # a part of it
    python scripts/study.py --shorter 50 --seeds 2 --folder outputs/short  # a short run of everything, in some minutes

Every run is a job of a sweep below the folder, and none is run twice: the same command goes on where it was stopped. Only the
whole study writes docs/study.md; the page of any other is in its folder.
"""

if __name__ == "__main__":
    from ganexp.cli import interrupting, quiet

    interrupting.at_once()  # while torch is imported
    quiet.wait_quietly()

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from ganexp.cli.commands.pages.writing import writing
from ganexp.cli.sweeping.results import results
from ganexp.logging.documents import refuse_unwritable
from ganexp.printable import printable
from studying import page, sweeps, timing
from studying.courses import courses
from studying.plan import EVALUATIONS, SETTINGS, STRATEGIES, Arm, arms, comparison, search
from studying.tuning import tuned

LOSSES = list(dict.fromkeys(loss for setting in SETTINGS.values() for loss in setting.losses))
WHOLE = [list(SETTINGS), LOSSES, list(STRATEGIES), 5, 1]
"""Settings, losses, strategies, seeds and divisor of the study in docs/study.md."""
PAGE = Path(__file__).resolve().parent.parent / "docs" / "study.md"


def main(arguments: Sequence[str] | None = None) -> Path:
    """Run what is missing of the study, and return the path of its page."""
    options = _parser().parse_args(arguments)
    folder: Path = options.folder.resolve()
    length = {name: max(EVALUATIONS, SETTINGS[name].iterations // options.shorter) for name in options.settings}
    searches = {
        folder / "searches" / f"{setting}-{strategy}": search(
            SETTINGS[setting], STRATEGIES[strategy], options.losses, length[setting]
        )
        for setting in options.settings
        for strategy in options.strategies
        if {*SETTINGS[setting].losses} & {*options.losses}
    }
    if not searches:
        sys.exit(f"Error: no setting of {', '.join(options.settings)} has the losses {', '.join(options.losses)}.")
    whole = [options.settings, options.losses, options.strategies, options.seeds, options.shorter] == WHOLE
    output: Path = options.page or (PAGE if whole else folder / "study.md")
    for path in (folder / "searches" / "log.txt", output):
        with writing(path, "name other places with --folder and --page"):
            refuse_unwritable(path)
    try:
        sweeps.run_all(searches, options.jobs, "searches")
        found, skipped = {}, {}
        for arm in arms(options.settings, options.losses, options.strategies):
            try:
                found[arm] = tuned(
                    folder / "searches" / f"{arm.setting}-{arm.strategy}", arm.loss, SETTINGS[arm.setting].metric
                )
            except ValueError as reason:
                skipped[arm] = str(reason)
        places = {arm: folder / "comparisons" / f"{arm.setting}-{arm.loss}-{arm.strategy}" for arm in found}
        compared = {places[arm]: comparison(arm, own, options.seeds, length[arm.setting]) for arm, own in found.items()}
        sweeps.run_all(compared, options.jobs, "comparisons")
    except RuntimeError as error:
        sys.exit(f"Error: {printable(error)}")
    study = page.Study(
        runs={arm: courses(place, SETTINGS[arm.setting].metric) for arm, place in places.items()},
        tuned={arm: " ".join(own) for arm, own in found.items()},
        skipped=skipped,
        times={
            (setting, loss): timing.ratios(setting, loss, strategies, folder / f"times-{setting}-{loss}.json")
            for (setting, loss), strategies in _blocks(found).items()
        },
        commands=[
            " ".join(["python scripts/study.py", *(arguments or sys.argv[1:])]),
            *(sweeps.command(one) for part in (searches, compared) for one in [*part.values()][:1]),
        ],
        hours=sum(job["wall_s"] or 0 for place in (*searches, *compared) for job in results(place)) / 3600,
    )
    with writing(output, "name another one with --page, and the same command takes up the runs"):
        page.write(study, output)
    print(f"Written to {output}")
    return output


def _blocks(arms: Iterable[Arm]) -> dict[tuple[str, str], list[str]]:
    """Return the strategies with each loss in each setting."""
    found: dict[tuple[str, str], list[str]] = {}
    for arm in arms:
        found.setdefault((arm.setting, arm.loss), []).append(arm.strategy)
    return found


def _positive(typed: str) -> int:
    if not typed.isdecimal() or not int(typed):
        raise argparse.ArgumentTypeError(f"should be a number of at least 1, not {typed}")
    return int(typed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--losses", nargs="+", default=LOSSES, choices=LOSSES)
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES), choices=STRATEGIES)
    parser.add_argument(
        "--seeds", type=int, default=5, choices=range(2, 50), metavar="N", help="how many seeds are compared (default 5)"
    )
    parser.add_argument("--shorter", type=_positive, default=1, metavar="N", help="divide all iterations by N")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, help="sweeps at a time (default: one per core)")
    parser.add_argument("--folder", type=Path, default=Path("outputs/study"), help="of all runs (default outputs/study)")
    parser.add_argument("--page", type=Path, help="the page (default docs/study.md for the whole study, else in its folder)")
    return parser


if __name__ == "__main__":
    interrupting.run(main)
