"""Write one self-contained HTML page about runs: samples over time, what differs, curves, timings.

    ganexp report outputs/2026-11-21_08-00-00_multirun
    ganexp report outputs/2026-11-21_08-00-00_multirun --metric began/convergence  # else by its sweep.metric
    ganexp report outputs/2026-11-21_08-00-00_digits_hinge_joint_seed0 outputs/latest --output comparison.html
    ganexp report outputs/latest --pictures figures  # each curve as a PNG and an SVG too

Each folder is that of a run or a sweep. Runs that differ only in the seed are averaged, with a band from the lowest to the
highest; it makes no difference if one of them was resumed, ran longer or wrote elsewhere. --metric ranks these averages.
Broken, failed and unfinished runs are shown as such, with whatever can be read of them.
"""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ganexp.cli import shared_options as shared
from ganexp.documents import refuse_unwritable
from ganexp.facts import UserError
from ganexp.logging import reading


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("folders", nargs="+", type=Path, help="folders of runs or sweeps")
    parser.add_argument("--output", type=Path, help="the page; report.html in the first folder by default")
    parser.add_argument(
        "--pictures", type=Path, metavar="FOLDER", help="write each curve there as PNG and SVG; none by default"
    )
    parser.add_argument("--metric", help="a key of the rows to rank by, such as eval/fid; a sweep's sweep.metric by default")
    parser.add_argument(
        "--direction",
        choices=("auto", "minimize", "maximize"),
        default="auto",
        help="which of its values are best; auto is what the sweep was told or the key declares",
    )


def refuse(options: Namespace) -> None:
    """Refuse folders that are not there, or of which none holds a run, and a page that cannot be written."""
    shared.refuse_without("plotly", "report")
    missing = [folder for folder in options.folders if not folder.exists()]
    if missing or not any(reading.find(Path(os.path.realpath(folder))) for folder in options.folders):
        named = ", ".join(map(str, missing or options.folders))
        raise UserError(f"{named} holds no run; name a run's folder or a sweep's below outputs/.")
    refuse_unwritable(options.output or options.folders[0] / "report.html")
    if options.pictures and options.pictures.exists() and not options.pictures.is_dir():
        raise UserError(f"--pictures {options.pictures} is a file: name a folder")
