"""The command line of a run, kept in its folder so that the run can be resumed."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from ganexp.config.schema import ConfigError
from ganexp.logging.documents import write_document
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
    """
    document = read_document(RunFolder(folder).command)
    overrides, options = _strings(document.get("overrides")), _strings(document.get("options"))
    if overrides is None:
        source = RunFolder(folder).hydra_overrides
        try:
            overrides, options = overrides_in(source), []
        except (OSError, ValueError) as error:
            raise ConfigError(f"{key}: its command line is not in {source}: {error}.") from None
    return [one for one in overrides if not one.lstrip("+~").startswith(("hydra", "-"))], options or []


def overrides_in(file: Path) -> list[str]:
    """Return the overrides that Hydra has kept in a file, as they were typed.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file holds something else.
    """
    if file.stat().st_size > 2**18:
        raise ValueError("it is too large for a command line")
    try:
        found = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())[:200]) from None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError("it should be a list of overrides")
    return found


def _strings(values: Any) -> list[str] | None:
    """Return a list of strings as it is, and None for anything else."""
    return values if isinstance(values, list) and all(isinstance(value, str) for value in values) else None
