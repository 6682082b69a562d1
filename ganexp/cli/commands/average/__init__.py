"""Make power-function averages of any width from the checkpoints of a run with average=power (Karras et al. 2024, EDM2).

    ganexp average outputs/latest --width 0.05 0.07 0.15
    ganexp evaluate outputs/latest/averages/*.pt                    # which width is best?
    ganexp average outputs/latest --width 0.05 --iteration 2000

Each average is a file in averages/ of the run, which ganexp sample, ganexp evaluate and ganexp.load accept. The more
checkpoints there are, each with averages of two widths, the closer it is to the exact average: train with average=power
average.beside=[0.05] and a keep_checkpoints that keeps all of them. The command prints how close it is.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ganexp.cli import shared_options as shared
from ganexp.documents import refuse_outside
from ganexp.facts import UserError
from ganexp.logging import reading
from ganexp.logging.layout import RunFolder

NARROWEST, WIDEST = 1e-6, 0.28
"""Bounds of widths, as for `average.width`."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=shared.place, help="a run folder; run=… is the same")
    parser.add_argument(
        "--width", type=float, action="extend", nargs="+", required=True, help="relative standard deviations, below 0.28"
    )
    parser.add_argument("--iteration", type=shared.positive, help="the end of the average; the last checkpoint's by default")
    shared.add(parser, "--trust", "--overwrite")


def refuse(options: Namespace) -> None:
    """Refuse widths outside the range of averages, averages that are there already, and a run that has none to make."""
    for width in options.width:
        if not NARROWEST <= width < WIDEST:
            raise UserError(f"--width should be at least {NARROWEST:g} and below {WIDEST:g}, not {width:g}")
    shared.refuse_missing(options.run)
    reading.checkpoint_at(options.run)  # which refuses sweeps
    for width in options.width:
        *_, place = average_of(options, width)
        if place.exists() and not options.overwrite:
            raise UserError(f"{place} is there already: add --overwrite to replace it")


def average_of(options: Namespace, width: float) -> tuple[list[Path], int, Path]:
    """Return the checkpoints that an average of a width is made from, its last iteration, and the place where it is written."""
    folder = RunFolder(options.run)
    paths = [path for path in folder.numbered if options.iteration is None or iteration_of(path) <= options.iteration]
    if not paths:
        upto = "" if options.iteration is None else f" at or before iteration {options.iteration}"
        raise UserError(f"{folder.path} has no checkpoint{upto}: train with a keep_checkpoints that keeps all of them")
    iteration = options.iteration or iteration_of(paths[-1])
    if iteration > (end := iteration_of(folder.numbered[-1])):
        raise UserError(f"--iteration={iteration} lies beyond the run's last checkpoint, at {end}: lower it")
    refuse_outside(folder.averages, folder.path)
    return paths, iteration, folder.averages / f"width_{width:g}_iteration_{iteration:09d}.pt"


def iteration_of(checkpoint: Path) -> int:
    """Return the iteration that the name of a numbered checkpoint tells."""
    return int(checkpoint.stem.removeprefix("iteration_"))
