"""The defaults of keys: conf/train.yaml is the one place for them, and its comments for what keys mean."""

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent.parent


def conf_folder() -> Path:
    """Return the folder of YAML files: inside the package once installed, beside it in a clone without symbolic links."""
    inside = PACKAGE / "conf"
    return (inside if inside.is_dir() else PACKAGE.parent / "conf").resolve()


def options_in(group: str, folders: Iterable[Path]) -> dict[str, Any]:
    """Return the options of a group whose members are listed, as plain values by name.

    If several folders have a file of the same name, the first counts, as in Hydra. `auto` stands for options and is not one.
    """
    from omegaconf import OmegaConf

    found: dict[str, Any] = {"auto": None}
    for path in (path for folder in folders for path in sorted((folder / group).glob("*.yaml"))):
        if path.stem not in found:
            option: Any = OmegaConf.to_container(OmegaConf.load(path))
            found |= option if isinstance(option, dict) else {}
    del found["auto"]
    return found


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
