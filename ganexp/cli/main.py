"""`ganexp`: one command for each thing to do with a run. `ganexp COMMAND --help` says what a command takes."""

import importlib
import sys
from collections.abc import Callable, Sequence
from functools import partial

from ganexp.cli import interrupting, quiet


def main() -> None:
    """Do what the command line says."""
    if sys.argv[1:2] == ["train"]:
        from ganexp.cli.train import main as train

        sys.argv[:2] = ["ganexp train"]
        train()
        return
    interrupting.at_once()  # while torch is imported
    interrupting.run(command(sys.argv[1:]))


def command(words: Sequence[str]) -> Callable[[], object]:
    """Return the action that a command line asks for; slow imports wait until the line has been parsed."""
    from ganexp.cli.arguments import parser
    from ganexp.cli.beforehand import refuse
    from ganexp.cli.commands.errors import call

    options = parser().parse_args(words)
    call(refuse, options)
    quiet.wait_quietly()
    return partial(call, importlib.import_module(f"ganexp.cli.commands.{options.command}").main, options)
