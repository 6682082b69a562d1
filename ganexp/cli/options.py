"""The options of each group, as their YAML files describe them: those of conf/ and those of folders of one's own."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from ganexp.config.plain import flat


@dataclass(frozen=True)
class Option:
    """A member of a group.

    Args:
        name: What it is chosen by.
        meaning: The first comment of its file.
        node: Its keys, with values as they are written.
    """

    name: str
    meaning: str
    node: dict[str, Any]

    @property
    def settings(self) -> dict[str, str]:
        """Its settings with their defaults as they are written, those below `g` and `d` dotted."""
        if "_target_" not in self.node and "name" not in self.node:  # a preset, which sets other groups' keys
            return {}
        own = {key: value for key, value in self.node.items() if key not in ("name", "defaults")}
        return {
            key: _written(value)
            for key, value in flat(own)
            if not key.endswith("_target_") and not str(value).startswith("${")  # which repeats a setting above
        }


def options(group: str, folders: Iterable[Path]) -> list[Option]:
    """Return the options of a group, by name; where folders have files of one name, the first counts, as for Hydra."""
    files: dict[str, Path] = {}
    for folder in folders:
        for path in sorted((folder / group).glob("*.yaml")):
            files.setdefault(path.stem, path)
    return [_read(path) for _, path in sorted(files.items())]


def defaults(folders: Iterable[Path], name: str = "train") -> dict[str, str]:
    """Return the groups that a primary configuration chooses from, in its order, each with its default."""
    path = next(path for folder in folders if (path := folder / f"{name}.yaml").exists())
    chosen = [one for one in _yaml(path)["defaults"] if isinstance(one, dict)]
    pairs = [pair for one in chosen for pair in one.items()]
    return {group: _written(option) for group, option in pairs if not group.startswith("override ")}


def _read(path: Path) -> Option:
    comments = (line.removeprefix("#").strip() for line in path.read_text().splitlines() if line.startswith("#"))
    meaning = next((comment for comment in comments if not comment.startswith("@package")), "")
    node = _yaml(path)
    nested = node.get(path.stem)  # as a member of a list is
    return Option(path.stem, meaning.removesuffix("."), nested if isinstance(nested, dict) else node)


def _yaml(path: Path) -> dict[str, Any]:
    found = yaml.load(path.read_text(), yaml.BaseLoader)  # keeps 5e-4 as it is written
    return found if isinstance(found, dict) else {}


def _written(value: Any) -> str:
    written = f"[{','.join(value)}]" if isinstance(value, list) else str(value)
    return "…" if written == "???" else written
