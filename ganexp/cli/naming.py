"""The names of runs: choices and changed keys, in characters that every file system accepts."""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from omegaconf import OmegaConf

from ganexp.config.schema import GROUPS, LISTS, effect_of

CHOICES = "${dataset.name}_${loss.name}_${strategy.name}_seed${seed}"
"""How conf/train.yaml names runs; what was changed on the command line is added when they begin."""
ALWAYS_NAMED = ("dataset", "loss", "strategy", "seed")
"""Keys whose values are in every name."""
LONGEST = 60
"""The most characters of a name, if those that are in every name leave room for a digest."""


def typed_overrides(hydra: Any, of: Literal["task", "hydra"] = "task") -> list[str]:
    """Return the overrides of ganexp's own keys, or of Hydra's, as they were typed, with their interpolations."""
    # iterating over the ListConfig itself would resolve interpolations
    overrides = OmegaConf.to_container(hydra.overrides[of], resolve=False)
    return [str(override) for override in overrides or ()]


def run_name(cfg: Any) -> str:
    """Return the name of a run from its composed configuration, Hydra's part included."""
    overrides = typed_overrides(cfg.hydra)
    renamed = class_names(overrides)
    choices = [renamed.get(group) or called(cfg[group]) for group in ("dataset", "loss", "strategy")]
    room = LONGEST - len("_".join([*choices, f"seed{cfg.seed}"])) - 1
    name = "_".join([*choices, *filter(None, [changes(overrides, room)]), f"seed{cfg.seed}"])
    return re.sub(r"[^\w.+-]", "-", name, flags=re.ASCII)  # a sweep makes a job's folder before the job is checked


def class_names(overrides: Sequence[str]) -> dict[str, str]:
    """Return, for each group whose class was replaced, the name of the new class, unless a name was given."""
    typed = _settings(overrides)
    classes = {group: typed[f"{group}._target_"] for group in GROUPS if group not in LISTS and f"{group}._target_" in typed}
    named = {group: re.sub(r"[^\w.-]", "", name.rpartition(".")[2], flags=re.ASCII) for group, name in classes.items()}
    return {group: name for group, name in named.items() if name and f"{group}.name" not in typed}


def rename_groups(cfg: Any, overrides: Sequence[str]) -> None:
    """Give members of groups whose class was replaced the name of the new class, in folders, tables and W&B."""
    for group, name in class_names(overrides).items():
        if "name" in cfg[group]:
            cfg[group].name = name


def changes(overrides: Sequence[str], room: int = LONGEST) -> str:
    """Return the changed keys with their values, in short: `lr1e-3_generator-mlp`; of long ones the first and a digest.

    Args:
        overrides: What was typed.
        room: The most characters, but for the digest, which has six.
    """
    typed = {key: value for key, value in _settings(overrides).items() if not _is_left_out(key)}
    keys = [key.removesuffix("._target_") for key in typed]
    lasts = [key.rpartition(".")[2] for key in keys]
    shortest = [last if lasts.count(last) == 1 else key for key, last in zip(keys, lasts, strict=True)]
    parts = [_part(key, value) for key, value in zip(shortest, typed.values(), strict=True)]
    if len("_".join(parts)) <= room:
        return "_".join(parts)
    digest = hashlib.sha256(repr(sorted(typed.items())).encode()).hexdigest()[:6]
    while len(parts) > 1 and len("_".join([*parts, digest])) > room:
        parts.pop()
    if len(parts) == 1:  # which alone may be too long
        parts[0] = parts[0][: max(0, room - len(digest) - 1)]
    return "_".join(filter(None, [*parts, digest]))


def short(path: Path) -> Path:
    """Return a path relative to the working directory, if it lies below that: shorter to read and to copy."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def by_latest(path: Path) -> Path:
    """Return a path by way of the link `latest`, if it leads there: shorter to read and to type, until another run begins."""
    for folder in (path, *path.parents):
        link = folder.parent / "latest"
        if link.is_symlink() and folder.name == os.readlink(link):
            return link / path.relative_to(folder)
    return path


def called(node: Any) -> str:
    """Return the name of a group's choice; that of its class if its YAML gives it none."""
    return str(node.get("name") or str(node.get("_target_")).rpartition(".")[2])


def _settings(overrides: Sequence[str]) -> dict[str, str]:
    return dict(word.lstrip("+").split("=", 1) for word in overrides if "=" in word and not word.startswith("~"))


def _is_left_out(key: str) -> bool:
    head, _, rest = key.partition(".")
    unnamed = head == "hydra" or effect_of(head) != "training"
    return key in ALWAYS_NAMED or unnamed or rest == "name" or (head in ALWAYS_NAMED and rest == "_target_")


def _part(key: str, value: str) -> str:
    short = value.strip("'\"").rstrip("/").rpartition("/")[2]  # the last part of a path
    short = short.rpartition(".")[2] if key in GROUPS else short  # the name of a class
    plain = re.sub(r"[^\w.+-]+", "-", short, flags=re.ASCII).strip("-.")
    plain = "none" if value == "[]" else plain
    if key == "experiment":
        return plain or key
    between = "" if plain[:1].isdigit() else "-"
    return f"{key}{between}{plain}" if plain else key
