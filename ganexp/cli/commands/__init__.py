"""The commands of `ganexp` other than `train`: one package each, which is found by its name.

A command's package says what can be asked for, without torch: its docstring is the help; `add_arguments(parser)` declares the
options; `refuse(options)` raises a `UserError` for a mistake that shows in them or on the disk. Its module `run` does the work:
`run(options)`. It is imported when nothing has been refused. A command whose parser has a default for `words` is given there
what was typed behind `--`.

An installed package adds a command by an entry point of the group `ganexp.commands`, whose value is such a package.
"""

import importlib
import pkgutil
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from ganexp.facts import UserError

GROUP = "ganexp.commands"


def names() -> list[str]:
    """Return the names of all commands: ganexp's own, and then those of other packages, which do not replace them."""
    own = _own()
    return [*own, *sorted(_further().keys() - {*own})]


def package(name: str) -> ModuleType:
    """Import the package of a command; no other command is imported.

    Raises:
        UserError: An installed package has declared the command, and it cannot be imported.
    """
    if name in _own():
        return importlib.import_module(f"{__name__}.{name}")
    entry = _further()[name]
    try:
        return importlib.import_module(entry.module)
    except ImportError as error:
        owner = entry.dist.name if entry.dist else entry.module
        raise UserError(f"{owner} cannot be imported ({error}): install it again, or remove it") from error


def _own() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(__path__)]


def _further() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
