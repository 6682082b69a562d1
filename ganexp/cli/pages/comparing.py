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


def measures(found: Sequence[RecordedRun]) -> dict[str, Scalar]:
    """Return what all runs measure, by key."""
    return {key: measure for run in found for key, measure in run.measures.items()}


def differing(found: Sequence[RecordedRun]) -> list[str]:
    """Return the keys, dotted, whose values are not the same in all runs that have a configuration."""
    configs = [settings(run) for run in found if run.config]
    return [key for key in dict.fromkeys(key for config in configs for key in config) if _classes([key], configs) > 1]


def telling(found: Sequence[RecordedRun]) -> list[str]:
    """Return the fewest differing keys, without the seed, that distinguish as many runs as all of them do; `SUBJECT` first."""
    configs = [settings(run) for run in found if run.config]
    options = {key for run in found for key, value in run.config.items() if isinstance(value, dict)}
    chosen: list[str] = []
    candidates = [key for key in differing(found) if key != "seed"]
    for key in sorted(
        candidates, key=lambda key: (is_target(key), [*SUBJECT, key].index(key), key not in options, key.count("."))
    ):
        if _classes([*chosen, key], configs) > _classes(chosen, configs):
            chosen.append(key)
    needed = list(chosen)
    for key in reversed(chosen):  # a later key may have made an earlier one superfluous
        without = [other for other in needed if other != key]
        if _classes(without, configs) == _classes(needed, configs):
            needed = without
    return needed


def grouped(found: Sequence[RecordedRun]) -> list[Group]:
    """Group the runs that differ only in the seed; a run without a configuration is a group of its own."""
    keys = telling(found)
    short = [key.rpartition(".")[2] for key in keys]
    names = [key if short.count(last) > 1 or is_target(key) else last for key, last in zip(keys, short, strict=True)]
    groups: dict[str, Group] = {}
    for run in found:
        values = settings(run)
        same = json.dumps([values.get(key) for key in keys]) if run.config else f"in {run.folder}"
        said = ", ".join(f"{name}={shown(values.get(key))}" for name, key in zip(names, keys, strict=True))
        groups.setdefault(same, Group((said or "all runs") if run.config else run.folder.name, [])).runs.append(run)
    return list(groups.values())


def settings(run: RecordedRun) -> dict[str, Any]:
    """Return a run's settings that may differ from other runs', by dotted key; a group's key holds the name of its option."""
    return {key.removesuffix(".name"): value for key, value in dotted(run.config).items() if effect_of(key) != "records"}


def shown(value: object, most: int = 120) -> str:
    """Return a value as people write it, cut if it is very long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else text[: most - 1] + "…"


def folder_names(found: Sequence[RecordedRun]) -> list[str]:
    """Return a name for each run: its folder's, with as many parent folders as are needed to tell it from the others."""
    paths = [run.folder.parts for run in found]
    names = []
    for path in paths:
        others = [other for other in paths if other != path]
        told = (n for n in range(1, len(path)) if all(other[-n:] != path[-n:] for other in others))
        names.append(str(Path(*path[-next(told, len(path)) :])))
    return names


def captions(found: Sequence[RecordedRun], groups: Sequence[Group]) -> list[str]:
    """Return a short name for each run: its group's and its seed; all folders' names where these do not tell runs apart."""
    named = {id(run): group.name for group in groups for run in group.runs}
    short = [f"{named[id(run)]}, seed {run.config.get('seed')}" for run in found]
    return short if 1 < len(set(short)) == len(found) else folder_names(found)


def is_target(key: str) -> bool:
    """Return whether a key holds a class's path, which the name of its option implies already unless it was replaced."""
    return key.endswith("_target_")


def _classes(keys: Sequence[str], configs: Sequence[dict[str, Any]]) -> int:
    """Return how many different combinations of values these keys have."""
    return len({json.dumps([config.get(key) for key in keys]) for config in configs})
