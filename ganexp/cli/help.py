"""What `python train.py --help` prints: every group with its options, and every key with its default and meaning.

Made when it is asked for, from the YAML files that Hydra sees and from the schema, so that nothing is missing from it. Neither
torch nor any class that a file names is imported.
"""

import json
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ganexp.cli.options import Option, defaults, options
from ganexp.config.schema import Config, keys_of, meaning_of

NARROWEST, WIDEST = 100, 130
NAMES, SETTINGS = 20, 28
"""Columns that names of options and keys with their defaults take."""
PRESETS = "settings of several groups and keys at once; what is typed beside it wins"


def described(cfg: Any) -> str:
    """Return the groups and the keys, as text for a terminal, given the composed configuration."""
    width = max(NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))
    folders = [Path(source.path) for source in cfg.hydra.runtime.config_sources if source.schema == "file"]
    lines = ["CHOICES, with their defaults; in brackets their own settings, given below the group, as in loss.gamma=0.7", ""]
    for group, default in defaults(folders, cfg.hydra.job.config_name).items():
        lines += [*_group(group, default, options(group, folders), width), ""]
    lines += ["KEYS", ""]
    for key, field in keys_of():
        lines += _entry(f"{key}={_written(field.get_default())}", meaning_of(field), SETTINGS, width)
    return "\n".join(lines).replace("$", "$$")  # Hydra takes it for a template


def _group(group: str, default: str, members: Sequence[Option], width: int) -> Iterator[str]:
    field = Config.model_fields.get(group)
    yield f"{group}={default}  {meaning_of(field) if field else PRESETS}"
    for member in members:
        settings = ", ".join(f"{key}={value}" for key, value in member.settings.items())
        yield from _entry(member.name, f"{member.meaning} ({settings})" if settings else member.meaning, NAMES, width)


def _entry(name: str, meaning: str, column: int, width: int) -> list[str]:
    """Return a name and what it means, beside it, or below it where the name is long."""
    text = textwrap.wrap(meaning, width - column, break_long_words=False, break_on_hyphens=False)
    first = [f"  {name:{column - 2}}{text[0]}"] if len(name) < column - 2 else [f"  {name}", " " * column + text[0]]
    return first + [" " * column + line for line in text[1:]]


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
