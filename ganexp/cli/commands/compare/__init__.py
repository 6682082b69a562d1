"""Compare update strategies on this machine: time, phases, operations and memory, side by side.

    ganexp compare --strategies detach joint one_stage --losses nonsaturating hinge
    ganexp compare --repeats 9 --overrides generator.width=64 batch_size=32 dataset.image_size=64

All rows run in turn, many times over, so that drift hits all alike. A ratio is taken within each turn, against `detach`
with redundant gradients, and the table shows its median and 95 % confidence interval. With loss=nonsaturating, two rows
are plain PyTorch loops of `detach`, with and without redundant gradients: what the framework costs is the ratio to them.
Writes table.md, table.csv and plots below outputs/.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ganexp.cli import shared_options as shared
from ganexp.config.defaults import option_files
from ganexp.documents import refuse_unwritable
from ganexp.facts import UserError


def add_arguments(parser: ArgumentParser) -> None:
    strategies = [*option_files("strategy")]
    parser.add_argument(
        "--strategies",
        action="extend",
        nargs="+",
        choices=strategies,
        metavar="NAME",
        help=f"{', '.join(strategies)}; all of them by default",
    )
    parser.add_argument("--losses", action="extend", nargs="+", help="names of losses to time; nonsaturating by default")
    parser.add_argument(
        "--overrides", action="extend", nargs="*", help="configuration of every run; that of a DCGAN of 64×64 by default"
    )
    parser.add_argument("--repeats", type=shared.positive, default=7, help="how often each row is timed")
    parser.add_argument("--iterations", type=shared.positive, default=3, help="iterations per repeat")
    parser.add_argument("--output", type=Path, help="folder of the results; a new one below outputs/ by default")


def refuse(options: Namespace) -> None:
    """Refuse unknown losses, and a folder that already holds a comparison."""
    shared.refuse_unknown("--losses", options.losses or [], "loss")
    for key, option in (("loss", "--losses"), ("strategy", "--strategies")):
        if any(word.lstrip("+").startswith(f"{key}=") for word in options.overrides or []):
            raise UserError(f"{option} says what is compared, and --overrides has {key}=: leave that out")
    if options.output:
        if (options.output / "table.md").exists():
            raise UserError(f"--output={options.output} holds a comparison already: choose another folder.")
        refuse_unwritable(options.output / "table.md")
