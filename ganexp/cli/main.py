"""The program `ganexp` and its commands. `ganexp COMMAND --help` lists a command's options."""

import difflib
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from ganexp.cli import process
from ganexp.facts import UserError


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

    Raises:
        UserError, OSError: It can be refused at once.
    """
    from ganexp.cli.arguments import COMMANDS, TASKS, parsed, parser
    from ganexp.cli.beforehand import refuse

    if not words:
        return parser().print_help
    if words[0] not in COMMANDS and not words[0].startswith("-"):
        meanings = {**dict.fromkeys(COMMANDS, ""), **{task: f"sample RUN --{task}" for task in TASKS}}
        close = difflib.get_close_matches(words[0], meanings, n=1)
        meant = f"Did you mean {meanings[close[0]] or close[0]}?" if close else f"Its commands are {', '.join(COMMANDS)}."
        raise UserError(f"ganexp has no command {words[0]}. {meant}")
    options = parsed(words)
    refuse(options)
    if os.environ.get("RANK", "0") in ("0", ""):
        slow = "reading the runs" if options.command == "report" else "loading PyTorch, which takes a few seconds"
        print(f"ganexp {options.command}: {slow}.", file=sys.stderr, flush=True)
    return partial(importlib.import_module(f"ganexp.cli.commands.{options.command}").main, options)
