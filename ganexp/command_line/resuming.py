"""Going on with a run or a sweep: the command line that it was begun with, and where its checkpoint is."""

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ganexp.command_line.naming import shown
from ganexp.command_line.recorded import overrides_in, refuse_risky
from ganexp.command_line.sweeping import Sweep
from ganexp.configuration.resume import contradictions
from ganexp.configuration.schema import ConfigError
from ganexp.runs import reading as runs
from ganexp.runs.documents import write_document

RECORD = "command.json"
OPTIONS = {"-cd": "--config-dir", "-cp": "--config-path", "-cn": "--config-name"}
"""Hydra's options that say where configurations come from."""


def options(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate the options that say where configurations come from, with absolute paths, from everything else."""
    found, rest, left = [], [], list(arguments)
    while left:
        name, equals, value = left.pop(0).partition("=")
        option = OPTIONS.get(name, name)
        if option not in OPTIONS.values() or not (equals or left):
            rest.append(name + equals + value)
            continue
        value = value if equals else left.pop(0)
        if option == "--config-dir":
            value = str(Path(value).resolve())
        elif option == "--config-path" and "://" not in value:
            value = str((Path(sys.argv[0]).resolve().parent / value).resolve())
        found += [option, value]
    return found, rest


def record(folder: Path, overrides: Sequence[str], given: Sequence[str]) -> None:
    """Keep in a run folder what it takes to go on: its overrides, and the options of its command line.

    Raises:
        OSError: It cannot be written.
    """
    kept = [one for one in overrides if not one.startswith(("resume=", "sweep.resume="))]
    write_document(folder / RECORD, {"overrides": kept, "options": list(given)})


def resumed(arguments: Sequence[str]) -> list[str]:
    """Return the command line that goes on with what `resume=` or `sweep.resume=` names.

    Raises:
        ConfigError: There is nothing to go on with.
    """
    given, overrides = options(arguments)
    if any(one.startswith("sweep.resume=") for one in overrides):
        return _sweep(given, overrides)
    (name, *_) = [one.partition("=")[2] for one in overrides if one.startswith("resume=")]
    if name in ("auto", "null", ""):
        return list(arguments)
    checkpoint = located(name)
    before, places = _recorded(checkpoint.parent.parent, f"resume={name}")
    _refuse_unasked(given, places, f"resume={name}")
    further = [one for one in overrides if not one.startswith("resume=")]
    replaced = {one.partition("=")[0].lstrip("+~") for one in further}
    kept = [one for one in before if one.partition("=")[0].lstrip("+~") not in {*replaced, "resume", "trust"}]
    refuse_risky(kept, f"resume={name}")
    return [*given, *kept, *_trusting(further), quoted("resume", checkpoint)]


def located(name: str) -> Path:
    """Return the checkpoint that a run folder or a file stands for, past all links.

    Raises:
        ConfigError: There is none.
    """
    try:
        path = _named(name)
        checkpoint = path / "checkpoints" / "last.pt" if path.is_dir() else path
        if checkpoint.is_file() and checkpoint.parent.name == "checkpoints":
            return checkpoint
        if (path / "sweep.json").is_file():
            raise ConfigError(f"resume={name} is a sweep: continue it with sweep.resume={name}.")
    except (OSError, RuntimeError):  # a name too long, a link to itself
        pass
    raise ConfigError(f"resume={name} has no checkpoint; name a run folder below outputs/ that has one, or its file.")


def newest_alike(values: dict[str, Any], outputs: Path) -> Path | None:
    """Return the last checkpoint of the newest unfinished run with the same configuration, or None."""
    folders = [path for path in runs.find(outputs) if (path / "checkpoints" / "last.pt").exists()]
    for folder in sorted(folders, key=lambda path: (path / "checkpoints" / "last.pt").stat().st_mtime, reverse=True):
        run = runs.read(folder)
        reached = run.summary.get("iteration")
        unfinished = not isinstance(reached, int) or reached < values["iterations"]
        if run.config and not contradictions(run.config, values) and unfinished:
            return folder / "checkpoints" / "last.pt"
    return None


def quoted(key: str, value: object) -> str:
    """Return an override whose value Hydra takes as it is, whatever characters are in it."""
    escaped = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), str(value))
    return f"{key}='{escaped}'"


def _named(name: str) -> Path:
    """Return what a path stands for, which may be written with quotes as Hydra wants them."""
    path = Path(name)
    if not path.exists() and len(name) > 1 and name[0] == name[-1] and name[0] in "'\"":
        path = Path(name[1:-1])
    return shown(path.resolve())


def _recorded(folder: Path, asked: str) -> tuple[list[str], list[str]]:
    """Return the overrides of a run, without those for Hydra, and the options of its command line."""
    document = runs.read_document(folder / RECORD)
    overrides, places = _strings(document.get("overrides")), _strings(document.get("options"))
    if overrides is None:
        source = folder / ".hydra" / "overrides.yaml"
        try:
            overrides, places = overrides_in(source), []
        except (OSError, ValueError) as error:
            raise ConfigError(f"{asked}: its command line is not in {source}: {error}.") from None
    return [one for one in overrides if not one.lstrip("+~").startswith(("hydra", "-"))], places or []


def _strings(values: Any) -> list[str] | None:
    """Return a list of strings as it is, and None for anything else."""
    return values if isinstance(values, list) and all(isinstance(value, str) for value in values) else None


def _refuse_unasked(given: Sequence[str], recorded: Sequence[str], asked: str) -> None:
    """Refuse to leave out where configurations came from, and to take it from a folder that may be anyone's.

    Raises:
        ConfigError: The options were recorded, and are not given.
    """
    if recorded and not given:
        options = " ".join(shlex.quote(one) for one in recorded if one.isprintable())[:500]
        raise ConfigError(f"{asked} was begun with {options}: add that, if the configurations there are your own.")


def _sweep(given: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Return the command line of the sweep that `sweep.resume=<folder>` names, to be run again in its folder.

    Raises:
        ConfigError: The folder holds no sweep, or further keys are given, which would make it another one.
    """
    (name, *_) = [argument.partition("=")[2] for argument in arguments if argument.startswith("sweep.resume=")]
    further = [one for one in arguments if not one.startswith("sweep.resume=") and one not in ("-m", "--multirun")]
    foreign = [one for one in further if not one.startswith(("hydra", "trust="))]
    if foreign:
        raise ConfigError(f"sweep.resume runs the rest of a sweep as it was begun: leave out {' '.join(foreign)}.")
    try:
        folder = _named(name)
        sweep = Sweep.load(folder)
    except (OSError, ValueError, RuntimeError):
        raise ConfigError(f"sweep.resume={name} holds no sweep; name the folder of one, outputs/…_multirun.") from None
    if not sweep.jobs:
        raise ConfigError(f"sweep.resume={name} is a search; continue it by giving its hydra.sweeper.study_name again.")
    _refuse_unasked(given, list(sweep.options), f"sweep.resume={name}")
    replaced = {one.partition("=")[0].lstrip("+~") for one in further} | {"hydra.sweep.dir", "trust"}
    kept = [one for one in sweep.overrides if one.partition("=")[0].lstrip("+~") not in replaced]
    refuse_risky(kept, f"sweep.resume={name}")
    return [*given, "-m", *kept, *_trusting(further), quoted("hydra.sweep.dir", folder), quoted("sweep.resume", folder)]


def _trusting(further: Sequence[str]) -> list[str]:
    """Say which modules are trusted: those that are named here and now, and without a word none, whoever wrote the folder."""
    return [*further] if any(one.startswith("trust=") for one in further) else [*further, "trust=[]"]
