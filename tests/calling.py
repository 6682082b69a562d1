"""Commands of `ganexp`, called in this process."""

from ganexp.cli.main import command


def call(name, *arguments):
    """Do what a command line says, and return what the command returns."""
    return command([name, *map(str, arguments)])()
