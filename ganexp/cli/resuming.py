"""Resuming a run: its checkpoint, and its recorded configuration with the typed changes.

A run folder may come from anyone. Its configuration is plain values: Hydra does not compose or interpolate anything in it,
since group choices may leave `conf/` by `..` and a YAML file outside may set `hydra.callbacks`. `untrusted` refuses what only
the person who types may decide.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from ganexp.cli.composing import Request, composed_keys, doubts
from ganexp.cli.hydra_errors import composing
from ganexp.cli.line import Line, key_of
from ganexp.cli.naming import by_latest, short
from ganexp.cli.sweeping import Sweep
from ganexp.config.defaults import completed
from ganexp.config.parsing import parse, shown
from ganexp.config.plain import dotted, plain
from ganexp.config.schema import GROUPS, effect_of
from ganexp.config.untrusted import checked
from ganexp.facts import UserError
from ganexp.logging import reading as runs
from ganexp.logging.layout import RunFolder
from ganexp.logging.reading import RecordedRun

MOST_TOLD = 5
"""How many of the settings in which a run differs are told."""


def resumed(line: Line, name: str) -> Request:
    """Return the request of a command line with `resume=`: the run's recorded values, changed by the typed words.

    Args:
        line: What was typed.
        name: A run folder, or a checkpoint in one.
    """
    if line.value_of("hydra.run.dir") is not None:
        raise UserError(f"resume={name} goes on in the folder of that run: leave out hydra.run.dir.")
    checkpoint = find_checkpoint(name)
    recorded = runs.read_document(RunFolder.of_checkpoint(checkpoint).config)
    if not recorded:
        config = RunFolder.of_checkpoint(checkpoint).config
        raise UserError(f"resume={name}: {config} is missing or broken: restore it, or begin a new run, init_from={name}.")
    chosen = [key_of(word) for word in line.words if key_of(word) in GROUPS and effect_of(key_of(word)) != "training"]
    by_hydra = ["data_root", "trust", *chosen]
    to_compose = tuple(word for word in line.words if key_of(word) in by_hydra or re.split("[./]", key_of(word))[0] == "hydra")
    typed_values, hydra = composed_keys(replace(line, words=to_compose), by_hydra)
    trust = typed_values.pop("trust") or []
    values = completed(recorded) | typed_values
    for word in line.words:
        if word not in to_compose and key_of(word) != "resume":
            _lay_over(values, word)
    values = checked(values, f"resume={name}", typed=["data_root", *map(key_of, line.words)], trust=trust)
    return Request(values, parse(values), Path(), False, hydra.verbose, tuple(doubts(hydra)), {}, checkpoint)


def find_checkpoint(name: str) -> Path:
    """Return the checkpoint that a path refers to, a file or the last one of a run folder, with all links resolved."""
    try:
        path = path_of(name)
        checkpoint = RunFolder(path).last if path.is_dir() else path
        if checkpoint.is_file() and checkpoint.parent == RunFolder.of_checkpoint(checkpoint).checkpoints:
            return checkpoint
        if path.is_dir() and (earlier := RunFolder(path).numbered):
            raise UserError(f"resume={name} has no {checkpoint.name}: go on from an earlier one, resume={earlier[-1]}.")
        if Sweep.is_in(path):
            raise UserError(f"resume={name} is a sweep: continue it with sweep.resume={name}.")
        if path.suffix == ".pt" and not path.exists():
            raise UserError(f"resume={name} does not exist: name a run folder below outputs/, or a checkpoint in one.")
    except (OSError, RuntimeError):  # a name too long, a link to itself
        pass
    raise UserError(f"resume={name} has no checkpoint; name a run folder below outputs/ that has one, or its file.")


def newest_unfinished(values: dict[str, Any], outputs: Path, *, since: float | None = None) -> Path | None:
    """Return the last checkpoint of the newest unfinished run with the same configuration, or None.

    With `since`, a time in seconds since the epoch, only a checkpoint written after it.
    """
    from ganexp.config.resume import contradictions  # imports torch

    for run in _unfinished(outputs, since):
        reached = run.summary.get("iteration")
        goes_on = not isinstance(reached, int) or reached < values["iterations"]
        if goes_on and not contradictions(run.config, values):
            return RunFolder(run.folder).last
    return None


def found_by_auto(values: dict[str, Any], outputs: Path, checkpoint: Path | None) -> str:
    """Return what `resume=auto` has found: the run that goes on, or the newest unfinished one and how its settings differ."""
    from ganexp.config.resume import contradictions  # imports torch

    if checkpoint:
        return f"resume=auto goes on with {by_latest(RunFolder.of_checkpoint(checkpoint).path)}."
    beginning = f"resume=auto begins a new run: {outputs} has no unfinished run with these settings."
    newest = next(_unfinished(outputs), None)
    if newest is None:
        return beginning
    differing = contradictions(newest.config, values)
    before, now = dotted(completed(newest.config)), dotted(completed(values))
    names = {key: key.removesuffix(".name").removesuffix("._target_") for key in _telling(differing)}
    differs = [f"{name}={_value(before.get(key))} and not {_value(now.get(key))}" for key, name in names.items()]
    more = f" and {len(differs) - MOST_TOLD} more" if len(differs) > MOST_TOLD else ""
    how = f"has {', '.join(differs[:MOST_TOLD])}{more}" if differs else "has all of these iterations"
    return f"{beginning} The newest unfinished one, resume={short(newest.folder)}, {how}."


def _unfinished(outputs: Path, since: float | None = None) -> Iterator[RecordedRun]:
    """Yield the unfinished runs of a folder that have a checkpoint and a configuration, the newest first."""
    folders = [RunFolder(path) for path in runs.find(outputs) if RunFolder(path).last.exists()]
    folders = [folder for folder in folders if since is None or folder.last.stat().st_mtime >= since]
    for folder in sorted(folders, key=lambda folder: folder.last.stat().st_mtime, reverse=True):
        run = runs.read(folder.path)
        if run.config and run.state != "finished":
            yield run


def _telling(keys: Sequence[str]) -> list[str]:
    """Return keys without the settings of groups of which another member was chosen, whose names differ."""
    chosen = {key.rpartition(".")[0] for key in keys if key.endswith((".name", "._target_"))}
    named = [key for key in keys if key.endswith(".name")]
    classes = [key for key in keys if key.endswith("._target_") and f"{key.rpartition('.')[0]}.name" not in named]
    return [*named, *classes, *(key for key in keys if key.rpartition(".")[0] not in chosen)]


def _value(value: Any) -> str:
    return " ".join(shown(value).split())[:50]  # a configuration from a folder may hold anything


def path_of(name: str) -> Path:
    """Return the path that a name stands for; the name may be quoted for Hydra."""
    path = Path(name)
    if not path.exists() and len(name) > 1 and name[0] == name[-1] and name[0] in "'\"":
        path = Path(name[1:-1])
    return short(path.resolve())


def _lay_over(values: dict[str, Any], word: str) -> None:
    """Apply one word, `key=value`, to plain values."""
    with composing():
        (override,) = OverridesParser.create().parse_overrides([word])
    key = override.key_or_group
    if override.is_sweep_override():
        raise UserError(f"{word} is several values, and resume= goes on with one run: give it one value.")
    if key in GROUPS and not override.is_delete():
        names = override.value() if isinstance(override.value(), list) else [override.value()]
        if names in ([values[key].get("name")], [*values[key]]):
            return  # it was typed again, as all of the run's words may be
    if override.is_delete() or override.package or "/" in key or key in (*GROUPS, "experiment", "evaluation.protocol"):
        raise UserError(f"{word} is for a new run: leave it out, since resume= takes what a run was trained with.")
    *above, last = key.split(".")
    node: Any = values
    for part in above:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise UserError(f"{word}: {part} is a value, with no keys below it.")
    node[last] = plain(OmegaConf.create({"value": override.value()}))["value"]
