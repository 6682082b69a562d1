"""The program `ganexp` and its commands. `ganexp COMMAND --help` lists a command's options."""

import argparse
import difflib
import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

from ganexp.cli import commands, process
from ganexp.facts import UserError
from ganexp.printable import printable


def main() -> None:
    """Execute the command line."""
    words = sys.argv[1:]
    if words[:1] == ["train"] or words == ["--version"]:
        from ganexp.cli.train import main as train

        sys.argv = ["ganexp train", *(words[1:] if words[0] == "train" else words)]
        train()
        return
    process.begin()  # while torch is imported
    with process.ending():
        action = command(words)
        process.by_exception()
        action()


def command(words: Sequence[str]) -> Callable[[], object]:
    """Return the action that a command line asks for; slow imports wait until the line has been parsed.

    Of several processes, the first one refuses what can be refused at once.
    """
    if not words or words[0].startswith("-"):
        return partial(overview().parse_args, words) if words else overview().print_help
    options = parsed(words)
    package = commands.package(words[0])
    if os.environ.get("RANK", "0") in ("0", ""):
        package.refuse(options)
        print(f"ganexp {words[0]}: loading libraries, which takes a few seconds.", file=sys.stderr, flush=True)
    return partial(importlib.import_module(f"{package.__name__}.run").run, options)


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line."""
    if words[0] not in commands.places():
        raise UserError(_unknown(words[0]))
    parser = parser_of(words[0])
    takes_further = parser.get_default("words") is not None
    end = [*words].index("--") if takes_further and "--" in words else len(words)
    options, unknown = parser.parse_known_args(words[1:end])
    if unknown:
        remedy = f"{parser.prog} --help lists its options"
        if takes_further:
            remedy = "put what is for the script behind --"
        elif not any(word.startswith("-") for word in unknown):
            remedy = f"what is no option stands before the options, and {parser.prog} --help lists both"
        raise UserError(f"{parser.prog} does not take {' '.join(unknown)}: {remedy}")
    if takes_further:
        options.words = words[end + 1 :]
    return options


def parser_of(name: str) -> "CommandParser":
    """Return the parser of a command."""
    package = commands.package(name)
    parser = CommandParser(prog=f"ganexp {name}", description=package.__doc__, formatter_class=Formatter)
    package.add_arguments(parser)
    return parser


def overview() -> "CommandParser":
    """Return the parser of `ganexp` where no command is named, whose help lists them all."""
    parser = CommandParser(prog="ganexp", description="Train GANs, and look at what they have learnt.")
    parser.add_argument("--version", action="store_true", help="print the versions of ganexp, torch and Python")
    listed = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    listed.add_parser("train", help="Train, or sweep with -m: the same as python train.py; it has a help of its own")
    for name in commands.places():
        try:
            text = commands.package(name).__doc__ or ""  # empty with python -OO
        except UserError as error:
            text = str(error)
        listed.add_parser(name, help=text.partition("\n")[0].rstrip(".").replace("%", "%%"))
    return parser


def _unknown(name: str) -> str:
    """Return what is said of a command that there is not."""
    from ganexp.cli.commands.sample import TASKS

    known = ["train", *commands.places()]
    meanings = {**{command: command for command in known}, **{task: f"sample RUN --{task}" for task in TASKS}}
    close = difflib.get_close_matches(name, meanings, n=1)
    meant = f"Did you mean {meanings[close[0]]}?" if close else f"Its commands are {', '.join(known)}."
    return f"ganexp has no command {name}. {meant}"


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Adds an option's default to its help, where one of None is what the help itself says, and names the options of groups."""

    def _get_help_string(self, action: argparse.Action) -> str:
        from ganexp.config.defaults import option_files  # reads the folders, for which only a help need wait

        text = re.sub(r"\[options of (\S+)\]", lambda group: ", ".join(option_files(group[1])), action.help or "")
        without = not action.option_strings or action.nargs == 0 or action.default in (None, [], argparse.SUPPRESS)
        return text if without else f"{text}; {action.default} by default"


class CommandParser(argparse.ArgumentParser):
    """Says in one sentence what is wrong with a command line, without the twenty lines of its usage."""

    def _check_help(self, action: argparse.Action) -> None:
        """Make no help text as its option is added, as Python 3.14 does."""

    def error(self, message: str) -> NoReturn:
        """End the process."""
        sentence = re.sub(r"^argument (\S+): should", r"\1 should", message)
        sentence = re.sub(
            r"^the following arguments are required: (\w+)$", r"\1 is missing: name it before the options", sentence
        )
        self.exit(2, f"Error: {printable(sentence.rstrip('.'))}. {self.prog} --help lists the options.\n")
