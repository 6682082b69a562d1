"""Watch the first iterations of somebody's training script, and say which update rule it follows and what is wrong.

    ganexp watch train.py
    ganexp watch train.py --iterations 5 --picture graphs.png -- --batch-size 64    # arguments of that script behind --
    ganexp watch train.py --json > report.json

The script runs unchanged, as its own main program, and is stopped after these iterations. The report names the strategy
that makes its updates, checks that where it can, and lists what each pass costs and each fault, with its remedy.
What the script prints goes to stderr. From Python, the same is `with ganexp.watch() as seen:`.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ganexp.cli import shared_options as shared
from ganexp.documents import refuse_unwritable
from ganexp.facts import UserError


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("script", type=Path, help="a Python file that trains a GAN with torch")
    parser.add_argument("--iterations", type=shared.positive, default=3, help="iterations to watch, in which both players move")
    parser.add_argument("--json", action="store_true", help="print the report as JSON; as text by default")
    parser.add_argument("--verbose", action="store_true", help="print all that was counted; at most twelve lines by default")
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="draw the life of each graph; none by default")
    parser.set_defaults(words=())  # of the script


def refuse(options: Namespace) -> None:
    """Refuse a script that is not there, and a picture that cannot be written."""
    if not options.script.is_file():
        raise UserError(f"{options.script} is no file: name a Python script that trains")
    if options.picture:
        if options.picture.suffix != ".png":
            raise UserError(f"--picture {options.picture} should end in .png")
        shared.refuse_without("matplotlib")
        refuse_unwritable(options.picture)
