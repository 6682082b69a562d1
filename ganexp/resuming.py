"""Going on with a run or a sweep: the command line that it was begun with, and where its checkpoint is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ganexp.config import ConfigError
from ganexp.logbook import runs
from ganexp.recorded import overrides_in, refuse_risky
from ganexp.sweeping import Sweep
from ganexp.training.checkpoint import contradictions


def resumed(arguments: Sequence[str]) -> list[str]:
    """Return the command line that goes on with what `resume=` or `sweep.resume=` names.

    Raises:
        ConfigError: There is nothing to go on with.
    """
    if any(argument.startswith("sweep.resume=") for argument in arguments):
        return _sweep(arguments)
    (name, *_) = [argument.partition("=")[2] for argument in arguments if argument.startswith("resume=")]
    if name in ("auto", "null", ""):
        return list(arguments)
    checkpoint = located(name)
    record = checkpoint.parent.parent / ".hydra" / "overrides.yaml"
    try:
        before = overrides_in(record)
    except (OSError, ValueError) as error:
        raise ConfigError(f"resume={name}: its command line is not in {record}: {error}.") from None
    further = [argument for argument in arguments if not argument.startswith("resume=")]
    replaced = {argument.partition("=")[0].lstrip("+~") for argument in further}
    kept = [one for one in before if one.partition("=")[0].lstrip("+~") not in {*replaced, "resume", "trust"}]
    refuse_risky(kept, f"resume={name}")
    return [*kept, *_trusting(further), f"resume={checkpoint}"]


def located(name: str) -> Path:
    """Return the checkpoint that a run folder or a file stands for.

    Raises:
        ConfigError: There is none.
    """
    path = Path(name)
    checkpoint = path / "checkpoints" / "last.pt" if path.is_dir() else path
    if checkpoint.is_file() and checkpoint.parent.name == "checkpoints":
        return checkpoint
    raise ConfigError(f"resume={name} has no checkpoint; name a run folder below outputs/ that has one, or its file.")


def newest_alike(values: dict[str, Any], outputs: Path) -> Path | None:
    """Return the last checkpoint of the newest unfinished run with the same configuration, or None."""
    folders = [path for path in runs.find(outputs) if (path / "checkpoints" / "last.pt").exists()]
    for folder in sorted(folders, key=lambda path: (path / "checkpoints" / "last.pt").stat().st_mtime, reverse=True):
        run = runs.read(folder)
        if run.config and not contradictions(run.config, values) and run.summary.get("iteration", 0) < values["iterations"]:
            return folder / "checkpoints" / "last.pt"
    return None


def _sweep(arguments: Sequence[str]) -> list[str]:
    """Return the command line of the sweep that `sweep.resume=<folder>` names, to be run again in its folder.

    Raises:
        ConfigError: The folder holds no sweep, or further keys are given, which would make it another one.
    """
    (name, *_) = [argument.partition("=")[2] for argument in arguments if argument.startswith("sweep.resume=")]
    further = [one for one in arguments if not one.startswith("sweep.resume=") and one not in ("-m", "--multirun")]
    foreign = [one for one in further if not one.startswith(("hydra", "trust="))]
    if foreign:
        raise ConfigError(f"sweep.resume runs the rest of a sweep as it was begun: leave out {' '.join(foreign)}.")
    folder = Path(name)
    try:
        sweep = Sweep.load(folder)
    except (OSError, ValueError):
        raise ConfigError(f"sweep.resume={name} holds no sweep; name the folder of one, outputs/…_multirun.") from None
    if not sweep.jobs:
        raise ConfigError(f"sweep.resume={name} is a search; continue it by giving its hydra.sweeper.study_name again.")
    replaced = {argument.partition("=")[0].lstrip("+~") for argument in further} | {"hydra.sweep.dir", "trust"}
    kept = [one for one in sweep.overrides if one.partition("=")[0].lstrip("+~") not in replaced]
    refuse_risky(kept, f"sweep.resume={name}")
    return ["-m", *kept, *_trusting(further), f"hydra.sweep.dir={folder}", f"sweep.resume={folder}"]


def _trusting(further: Sequence[str]) -> list[str]:
    """Say which modules are trusted: those that are named here and now, and without a word none, whoever wrote the folder."""
    return [*further] if any(one.startswith("trust=") for one in further) else [*further, "trust=[]"]
