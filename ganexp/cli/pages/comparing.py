"""The settings in which runs differ, and the groups of runs that differ only in their seeds."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ganexp.config.plain import dotted
from ganexp.config.schema import effect_of
from ganexp.instruments.scalar import Scalar
from ganexp.logging.reading import RecordedRun

SUBJECT = ("loss", "strategy", "dataset")
"""The keys that are preferred where several would tell the runs apart equally well."""


@dataclass
class Group:
    """Runs that differ in nothing but the seed, under a name that tells them from the others on the page."""

    name: str
    runs: list[RecordedRun]

    @property
    def size(self) -> str:
        """How many there are, if more than one: `3 seeds`, or `2 runs` where a seed occurs twice."""
        if len(self.runs) == 1:
            return ""
        seeds = {str(run.config.get("seed")) for run in self.runs}
        return f"{len(self.runs)} {'seeds' if len(seeds) == len(self.runs) else 'runs'}"


def measures(runs: Sequence[RecordedRun]) -> dict[str, Scalar]:
    """Return what all runs measure, by key."""
    return {key: measure for run in runs for key, measure in run.measures.items()}


def differing(runs: Sequence[RecordedRun]) -> list[str]:
    """Return the keys, dotted, whose values are not the same in all runs that have a configuration."""
    configs = [settings(run) for run in runs if run.config]
    return [key for key in dict.fromkeys(key for config in configs for key in config) if _classes([key], configs) > 1]


def telling(runs: Sequence[RecordedRun]) -> list[str]:
    """Return the fewest differing keys, without the seed, that distinguish as many runs as all of them do; `SUBJECT` first."""
    configs = [settings(run) for run in runs if run.config]
    options = {key for run in runs for key, value in run.config.items() if isinstance(value, dict)}
    chosen: list[str] = []
    candidates = [key for key in differing(runs) if key != "seed"]
    for key in sorted(
        candidates, key=lambda key: (is_target(key), [*SUBJECT, key].index(key), key not in options, key.count("."))
    ):
        if _classes([*chosen, key], configs) > _classes(chosen, configs):
            chosen.append(key)
    needed = list(chosen)
    for key in reversed(chosen):  # a later key may have made an earlier one superfluous
        without = [name for name in needed if name != key]
        if _classes(without, configs) == _classes(needed, configs):
            needed = without
    return needed


def grouped(runs: Sequence[RecordedRun]) -> list[Group]:
    """Group the runs that differ only in the seed; a run without a configuration is a group of its own."""
    keys = telling(runs)
    short = [key.rpartition(".")[2] for key in keys]
    names = [key if short.count(last) > 1 or is_target(key) else last for key, last in zip(keys, short, strict=True)]
    groups: dict[str, Group] = {}
    for run in runs:
        values = settings(run)
        same = json.dumps([values.get(key) for key in keys]) if run.config else f"in {run.folder}"
        name_values = ", ".join(f"{name}={shown(values.get(key))}" for name, key in zip(names, keys, strict=True))
        groups.setdefault(same, Group((name_values or "all runs") if run.config else run.folder.name, [])).runs.append(run)
    return list(groups.values())


def settings(run: RecordedRun) -> dict[str, Any]:
    """Return a run's settings that may differ from other runs', by dotted key; a group's key holds the name of its option."""
    return {key.removesuffix(".name"): value for key, value in dotted(run.config).items() if effect_of(key) != "records"}


def shown(value: object, most: int = 120) -> str:
    """Return a value as people write it, cut if it is very long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else text[: most - 1] + "…"


def folder_names(runs: Sequence[RecordedRun]) -> list[str]:
    """Return a name for each run: its folder's, with as many parent folders as are needed to tell it from the others."""
    paths = [run.folder.parts for run in runs]
    names = []
    for path in paths:
        others = [other for other in paths if other != path]
        lengths = (n for n in range(1, len(path)) if all(other[-n:] != path[-n:] for other in others))
        names.append(str(Path(*path[-next(lengths, len(path)) :])))
    return names


def captions(runs: Sequence[RecordedRun], groups: Sequence[Group]) -> list[str]:
    """Return a short name for each run: its group's and its seed; all folders' names where these do not tell runs apart."""
    named = {id(run): group.name for group in groups for run in group.runs}
    short = [f"{named[id(run)]}, seed {run.config.get('seed')}" for run in runs]
    return short if 1 < len(set(short)) == len(runs) else folder_names(runs)


def is_target(key: str) -> bool:
    """Return whether a key holds a class's path, which the name of its option implies already unless it was replaced."""
    return key.endswith("_target_")


def _classes(keys: Sequence[str], configs: Sequence[dict[str, Any]]) -> int:
    """Return how many different combinations of values these keys have."""
    return len({json.dumps([config.get(key) for key in keys]) for config in configs})
