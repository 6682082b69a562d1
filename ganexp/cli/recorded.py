"""The command line of a run, kept in its folder so that the run can be resumed."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ganexp.config.schema import ConfigError
from ganexp.documents import write_document
from ganexp.logging.layout import RunFolder
from ganexp.logging.reading import read_document

log = logging.getLogger(__name__)
CONFIG_OPTIONS = {"-cd": "--config-dir", "-cp": "--config-path", "-cn": "--config-name"}
"""Hydra's options that say where configurations come from, by their short forms."""


def config_options(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate the options that say where configurations come from, with absolute paths, from everything else."""
    found, rest, left = [], [], list(arguments)
    while left:
        name, equals, value = left.pop(0).partition("=")
        option = CONFIG_OPTIONS.get(name, name)
        if option not in CONFIG_OPTIONS.values() or not (equals or left):
            rest.append(name + equals + value)
            continue
        value = value if equals else left.pop(0)
        if option == "--config-dir":
            value = str(Path(value).resolve())
        elif option == "--config-path" and "://" not in value:
            value = str((Path(sys.argv[0]).resolve().parent / value).resolve())
        found += [option, value]
    return found, rest


def record_command(folder: Path, overrides: Sequence[str], options: Sequence[str]) -> None:
    """Keep in a run folder what is needed to resume the run: its overrides and its `config_options`."""
    kept = [one for one in overrides if not one.startswith(("resume=", "sweep.resume="))]
    try:
        write_document(RunFolder(folder).command, {"overrides": kept, "options": list(options)})
    except OSError as error:
        log.warning("The command to resume this run is not recorded: %s.", error)


def recorded_command(folder: Path, key: str) -> tuple[list[str], list[str]]:
    """Return the overrides of a run, without those for Hydra, and its `config_options`.

    Args:
        folder: The run folder.
        key: What named the folder; error messages begin with it.

    Raises:
        ConfigError: The folder does not have them.
    """
    place = RunFolder(folder).command
    document = read_document(place)
    overrides: Any = document.get("overrides")
    options: Any = document.get("options")
    if not all(isinstance(one, list) and all(isinstance(word, str) for word in one) for one in (overrides, options)):
        raise ConfigError(f"{key}: its command line is not in {place}.")
    return [one for one in overrides if not one.lstrip("+~").startswith(("hydra", "-"))], options
