"""The defaults of keys: conf/train.yaml is the one place for them, and its comments for what keys mean."""

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ganexp.config.plugins import conf_folders

PACKAGE = Path(__file__).parent.parent


def conf_folder() -> Path:
    """Return the folder of YAML files: inside the package once installed, beside it in a clone without symbolic links."""
    inside = PACKAGE / "conf"
    return (inside if inside.is_dir() else PACKAGE.parent / "conf").resolve()


def option_files(group: str, folders: Iterable[Path] = ()) -> dict[str, Path]:
    """Return the files of a group's options by name, in folders, or else in ganexp's own and those of plug-ins.

    If several folders have a file of one name, the first counts, as for Hydra.
    """
    files: dict[str, Path] = {}
    for folder in folders or [conf_folder(), *conf_folders()]:
        for path in sorted((folder / group).glob("*.yaml")):
            files.setdefault(path.stem, path)
    return files


def options_in(group: str, folders: Iterable[Path] = ()) -> dict[str, Any]:
    """Return the options of a group whose members are listed, as plain values by name; `auto` stands for them, and is none."""
    from omegaconf import OmegaConf

    options: dict[str, Any] = {}
    for name, path in option_files(group, folders).items():
        option: Any = OmegaConf.to_container(OmegaConf.load(path)) if name != "auto" else None
        options |= option if isinstance(option, dict) else {}
    return options


def defaults() -> dict[str, Any]:
    """Return the default of every key that is not a group, resolved."""
    from omegaconf import OmegaConf

    values = OmegaConf.to_container(_primary(), resolve=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def completed(values: dict[str, Any]) -> dict[str, Any]:
    """Return plain values with defaults for missing keys: users of the library may leave keys out, and old runs lack some."""
    merged: dict[str, Any] = _merged(defaults(), values)
    return merged


@functools.cache
def _primary() -> Any:
    from omegaconf import OmegaConf

    primary: Any = OmegaConf.load(conf_folder() / "train.yaml")
    del primary["defaults"], primary["hydra"]
    return primary


def _merged(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {key: _merged(below.get(key), value) for key, value in above.items()}
