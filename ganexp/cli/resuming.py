"""Resuming a run or a sweep: the command line that it was started with, and its checkpoint."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ganexp.cli.naming import short
from ganexp.cli.recorded import config_options, recorded_command
from ganexp.cli.risky import refuse_risky
from ganexp.cli.sweeping import Sweep
from ganexp.config.schema import ConfigError
from ganexp.logging import reading as runs
from ganexp.logging.layout import RunFolder


def expand_resume(arguments: Sequence[str]) -> list[str]:
    """Return a command line with the overrides of the run or sweep that its `resume=` or `sweep.resume=` names."""
    options, overrides = config_options(arguments)
    if any(one.startswith("sweep.resume=") for one in overrides):
        return _expand_sweep(options, overrides)
    (*_, name) = [one.partition("=")[2] for one in overrides if one.startswith("resume=")]
    if name in ("auto", "null", ""):
        return list(arguments)
    if any(one.startswith("hydra.run.dir=") for one in overrides):
        raise ConfigError(f"resume={name} goes on in the folder of that run: leave out hydra.run.dir.")
    checkpoint = find_checkpoint(name)
    recorded, recorded_options = recorded_command(RunFolder.of_checkpoint(checkpoint).path, f"resume={name}")
    _refuse_missing_options(options, recorded_options, f"resume={name}")
    further = [one for one in overrides if not one.startswith("resume=")]
    kept = _without(recorded, [*further, "resume", "trust"])
    refuse_risky(kept, f"resume={name}")
    first = next((number for number, one in enumerate(further) if "=" in one and not one.startswith("-")), len(further))
    flags, typed = further[:first], further[first:]  # Hydra takes no overrides on both sides of a flag
    return [*options, *flags, *kept, *_trusting(typed), quoted("resume", checkpoint), *typed]


def _expand_sweep(options: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return the command line of the sweep that `sweep.resume=<folder>` names, to be run again in its folder."""
    (*_, name) = [one.partition("=")[2] for one in overrides if one.startswith("sweep.resume=")]
    further = [one for one in overrides if not one.startswith("sweep.resume=") and one not in ("-m", "--multirun")]
    try:
        folder = _path(name)
        sweep = Sweep.load(folder)
    except (OSError, ValueError, RuntimeError):
        raise ConfigError(f"sweep.resume={name} holds no sweep; name the folder of one, outputs/…_multirun.") from None
    counting = {_key(one): one for one in sweep.overrides}  # the last of each key
    foreign = [one for one in further if not one.startswith(("hydra", "trust=")) and counting.get(_key(one)) != one]
    if foreign:
        raise ConfigError(f"sweep.resume runs the rest of a sweep as it was started: leave out {' '.join(foreign)}.")
    if not sweep.jobs:
        raise ConfigError(f"sweep.resume={name} is a search; continue it by giving its hydra.sweeper.study_name again.")
    _refuse_missing_options(options, sweep.options, f"sweep.resume={name}")
    new = [one for one in further if one.startswith(("hydra", "trust="))]
    kept = _without(sweep.overrides, [*new, "hydra.sweep.dir", "trust"])  # what is typed again stays where it was
    refuse_risky([one for one in kept if one not in further], f"sweep.resume={name}")
    own = [quoted("hydra.sweep.dir", folder), quoted("sweep.resume", folder)]
    return [*options, "-m", *kept, *new, *_trusting(further), *own]


def find_checkpoint(name: str) -> Path:
    """Return the checkpoint that a run folder or a file stands for, with all links resolved."""
    try:
        path = _path(name)
        checkpoint = RunFolder(path).last if path.is_dir() else path
        if checkpoint.is_file() and checkpoint.parent == RunFolder.of_checkpoint(checkpoint).checkpoints:
            return checkpoint
        if path.is_dir() and (earlier := RunFolder(path).numbered):
            raise ConfigError(f"resume={name} has no {checkpoint.name}: go on from an earlier one, resume={earlier[-1]}.")
        if Sweep.is_in(path):
            raise ConfigError(f"resume={name} is a sweep: continue it with sweep.resume={name}.")
    except (OSError, RuntimeError):  # a name too long, a link to itself
        pass
    raise ConfigError(f"resume={name} has no checkpoint; name a run folder below outputs/ that has one, or its file.")


def newest_unfinished(values: dict[str, Any], outputs: Path, *, since: float | None = None) -> Path | None:
    """Return the last checkpoint of the newest unfinished run with the same configuration, or None.

    With `since`, a time in seconds since the epoch, only a checkpoint written after it.
    """
    from ganexp.config.resume import contradictions  # imports torch

    folders = [RunFolder(path) for path in runs.find(outputs) if RunFolder(path).last.exists()]
    folders = [folder for folder in folders if since is None or folder.last.stat().st_mtime >= since]
    for folder in sorted(folders, key=lambda folder: folder.last.stat().st_mtime, reverse=True):
        run = runs.read(folder.path)
        reached = run.summary.get("iteration")
        unfinished = run.state != "finished" and (not isinstance(reached, int) or reached < values["iterations"])
        if run.config and not contradictions(run.config, values) and unfinished:
            return folder.last
    return None


def quoted(key: str, value: object) -> str:
    """Return an override whose value Hydra takes literally, whatever characters are in it."""
    escaped = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), literal(value))
    return f"{key}='{escaped}'"


def literal(value: object) -> str:
    """Return a text as a value of a configuration, escaped so that nothing in it is interpolated."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", str(value))


def _path(name: str) -> Path:
    """Return the path that a name stands for; the name may be quoted for Hydra."""
    path = Path(name)
    if not path.exists() and len(name) > 1 and name[0] == name[-1] and name[0] in "'\"":
        path = Path(name[1:-1])
    return short(path.resolve())


def _without(recorded: Sequence[str], replaced: Sequence[str]) -> list[str]:
    """Return recorded overrides without those whose keys are overridden again."""
    keys = {_key(one) for one in replaced}
    return [one for one in recorded if _key(one) not in keys]


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+~")


def _refuse_missing_options(given: Sequence[str], recorded: Sequence[str], key: str) -> None:
    """Refuse to take configurations from a place that a folder, which may be anyone's, names: it must be typed again."""
    if recorded and not given:
        options = " ".join(shlex.quote(one) for one in recorded if one.isprintable())[:500]
        raise ConfigError(f"{key} was started with {options}: add that, if the configurations there are your own.")


def _trusting(further: Sequence[str]) -> list[str]:
    """Return the override that trusts no modules, since anyone may have written the folder, unless some are named now."""
    return [] if any(one.startswith("trust=") for one in further) else ["trust=[]"]
