"""Commands of `ganexp`, called in this process."""

import importlib

from ganexp.cli.arguments import parser
from ganexp.cli.commands import errors


def call(name, *arguments):
    """Do what a command line says, and return what the command returns."""
    options = parser().parse_args([name, *map(str, arguments)])
    return errors.call(importlib.import_module(f"ganexp.cli.commands.{name}").main, options)
