"""Commands of `ganexp`, called in this process."""

from ganexp.cli import process
from ganexp.cli.main import command
from ganexp.cli.train import train


def call(name, *arguments):
    """Do what a command line says, and return what the command returns."""
    with process.ending():
        return command([name, *map(str, arguments)])()


def said_by_train(words):
    """Return the line that `python train.py` ends with, for words that it refuses."""
    try:
        with process.ending():
            train(words)
    except SystemExit as end:
        return end.code
    return None
