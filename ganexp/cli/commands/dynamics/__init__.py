"""Write a page about a run's game: eigenvalues of its Jacobian over time, and how each update rule would behave there.

    ganexp dynamics outputs/latest                                  # of a run with dynamics.every=…, or at its checkpoints
    ganexp dynamics outputs/latest --rules joint detach extragradient --rate 0.01

Rows of a run that was trained with dynamics.every are used as they are; for other runs, the checkpoints that they have kept
are examined, and keep_checkpoints=… keeps more of them.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ganexp.cli import shared_options as shared
from ganexp.documents import refuse_unwritable
from ganexp.facts import UserError
from ganexp.logging import reading
from ganexp.logging.layout import RunFolder


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=shared.place, help="a run folder; run=… is the same")
    parser.add_argument("--rules", action="extend", nargs="*", default=[], help="strategies to compare; all of them by default")
    parser.add_argument("--rate", type=shared.rate, help="learning rate; one over the largest eigenvalue by default")
    parser.add_argument(
        "--path", action="store_true", help="also look at every checkpoint, even if the rows have the spectrum already"
    )
    shared.add(parser, "--trust")
    parser.add_argument("--output", type=Path, help="the page; dynamics.html in the run's folder by default")


def refuse(options: Namespace) -> None:
    """Refuse a run that has nothing to look at, unknown strategies, and a page that cannot be written."""
    shared.refuse_without("plotly", "report")
    shared.refuse_missing(options.run)
    reading.checkpoint_at(options.run)  # which refuses sweeps
    shared.refuse_unknown("--rules", options.rules, "strategy")
    if not RunFolder(options.run).numbered and not any(map(has_spectrum, reading.read(options.run).rows)):
        raise UserError(f"{options.run} has no checkpoint: name a run that has, or train with dynamics.every=500")
    refuse_unwritable(options.output or options.run.resolve() / "dynamics.html")


def has_spectrum(row: Mapping[str, Any]) -> bool:
    """Return whether a row of a run has the eigenvalues of its game."""
    return "dynamics/real_1" in row
