"""Options and keys as YAML files declare them: values as written, and comments, which are the help.

The files of conf/ and of users' own folders are read. Neither Hydra nor any class that a file names is imported.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from ganexp.config.defaults import option_files
from ganexp.config.plain import flat
from ganexp.facts import UserError


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
        """Its settings with their defaults as they are written, nested ones under dotted keys; a preset has none."""
        own = {key: _written(value) for key, value in flat(self.node) if key != "defaults"}
        if not any(key.endswith("_target_") for key in own):
            return {}
        return {
            key: value
            for key, value in own.items()
            if key.rpartition(".")[2] not in ("name", "_target_")
            and not value.startswith("${")  # an interpolation repeats a setting above
        }


@dataclass
class Primary:
    """A primary configuration: the default of each group, the value of each key as written, and their comments."""

    groups: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    meanings: dict[str, str] = field(default_factory=dict)


def options(group: str, folders: Iterable[Path]) -> list[Option]:
    """Return the options of a group, by name; if several folders have a file of one name, the first counts, as for Hydra."""
    return [_read(path) for _, path in sorted(option_files(group, folders).items())]


def option(group: str, name: str, folders: Iterable[Path]) -> Option | None:
    """Return one option of a group; None if no folder has it. The files of other options are not read."""
    paths = (folder / group / f"{name}.yaml" for folder in folders)
    return next((_read(path) for path in paths if path.exists()), None)


def primary(folders: Sequence[Path], name: str = "train") -> Primary:
    """Return the groups, keys and comments of a primary configuration and of those that it inherits from."""
    config = Primary()
    path = next((path for folder in folders if (path := folder / f"{name.removesuffix('.yaml')}.yaml").exists()), None)
    lines, root = _parsed(path, yaml.compose) if path else ([], None)
    if not isinstance(root, yaml.MappingNode):
        return config
    for key, node in root.value:
        if key.value == "defaults":
            for entry in node.value:
                if isinstance(entry, yaml.MappingNode):
                    _add(lines, entry, config.groups, config.meanings)
                elif entry.value != "_self_":
                    inherited = primary(folders, entry.value)
                    config.groups |= inherited.groups
                    config.keys |= inherited.keys
                    config.meanings |= inherited.meanings
    _add(lines, root, config.keys, config.meanings)
    for group in config.groups:  # a group may also be a key below the defaults
        config.keys.pop(group, None)
    return config


def _add(
    lines: Sequence[str], node: yaml.MappingNode, values: dict[str, str], meanings: dict[str, str], above: str = ""
) -> None:
    """Add every key below a node, dotted, with its value as it is written, and the comment behind it if there is one."""
    for key, value in node.value:
        name = above + key.value
        if name in ("defaults", "hydra") or name.startswith("override "):
            continue
        if isinstance(value, yaml.MappingNode) and value.value:
            _add(lines, value, values, meanings, f"{name}.")
            continue
        values[name] = _written(_plain(value))
        end = value.end_mark if value.start_mark.line == key.end_mark.line else key.end_mark
        comment = re.match(r":?\s+#\s*(.*)", lines[end.line][end.column :]) if end.line < len(lines) else None
        if comment:
            meanings[name] = comment[1]


def _read(path: Path) -> Option:
    lines, values = _parsed(path, yaml.load)
    comments = (line.removeprefix("#").strip() for line in lines if line.startswith("#"))
    meaning = next((comment for comment in comments if not comment.startswith("@package")), "")
    return Option(path.stem, meaning.removesuffix("."), values if isinstance(values, dict) else {})


def _parsed(path: Path, parse: Callable[..., Any]) -> tuple[list[str], Any]:
    """Return the lines of a file, and what is parsed from it; BaseLoader keeps 5e-4 as it is written."""
    text = path.read_text(encoding="utf-8")
    try:
        return text.splitlines(), parse(text, yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise UserError(f"{path} cannot be read as YAML: {' '.join(str(error).split())}.") from None


def _plain(node: yaml.Node) -> Any:
    return [_plain(item) for item in node.value] if isinstance(node, yaml.SequenceNode) else node.value


def _written(value: Any) -> str:
    written = f"[{','.join(map(_written, value))}]" if isinstance(value, list) else str(value)
    return "…" if written == "???" else written
