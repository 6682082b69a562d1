"""Say what a run, a checkpoint, a saved generator, an exported file or a sweep is, and how to use it.

    ganexp info outputs/latest
    ganexp info outputs/latest/checkpoints/best.pt
    ganexp info generator.onnx
    ganexp info --disk          # what lies in outputs/ and in the cache folder, and how to delete it

Nothing in the file is executed.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ganexp.cli import shared_options as shared
from ganexp.facts import UserError


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("place", nargs="?", type=shared.place, help="a folder or a file; run=… is the same; none with --disk")
    parser.add_argument("--disk", action="store_true", help="list what takes room on the disk")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="the folder of runs that --disk looks into")


def refuse(options: Namespace) -> None:
    """Refuse a place that is not there, or none."""
    if options.disk == (options.place is not None):
        raise UserError("name a place, or say --disk: one of them")
    if options.place is not None:
        shared.refuse_missing(options.place)
