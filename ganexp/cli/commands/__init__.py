"""The commands of `ganexp` other than `train`: one package each, which is found by its name.

A command's package says what can be asked for, without torch: its docstring is the help; `add_arguments(parser)` declares the
options; `refuse(options)` raises a `UserError` for a mistake that shows in them or on the disk. Its module `run` does the work:
`run(options)`. It is imported when nothing has been refused. A command whose parser has a default for `words` is given there
what was typed behind `--`.

An installed package adds a command by an entry point of the group `ganexp.commands`, whose value is such a package.
"""

import importlib
import pkgutil
from importlib.metadata import entry_points
from types import ModuleType

from ganexp.facts import UserError

GROUP = "ganexp.commands"


def places() -> dict[str, str]:
    """Return the package of each command, by its name: ganexp's own first, which no installed package replaces."""
    packages = {module.name: f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)}
    return packages | {entry.name: entry.module for entry in entry_points(group=GROUP) if entry.name not in packages}


def package(name: str) -> ModuleType:
    """Import the package of a command; no other command is imported."""
    place = places()[name]
    try:
        return importlib.import_module(place)
    except ImportError as error:
        if place.startswith(__name__):
            raise
        raise UserError(f"{place} cannot be imported ({error}): install its package again, or remove it") from error
