"""A composed configuration as plain values."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from ganexp.config.defaults import options_in
from ganexp.config.schema import LISTS
from ganexp.facts import UserError
from ganexp.printable import one_line

OPTIONS = "ganexp.options"
"""The resolver in `${ganexp.options:GROUP}`, which stands for all options of a group."""


def register_resolver(name: str, resolver: Callable[..., Any]) -> None:
    """Let `${name:…}` stand for what a function returns; until OmegaConf 2.4, `register_resolver` is another function."""
    from omegaconf import OmegaConf, __version__

    renamed = tuple(map(int, __version__.split(".")[:2])) >= (2, 4)
    getattr(OmegaConf, "register_resolver" if renamed else "register_new_resolver")(name, resolver, replace=True)


def plain(cfg: Any) -> dict[str, Any]:
    """Return a copy of a configuration as plain, resolved dictionaries."""
    if isinstance(cfg, dict):
        return copy.deepcopy(cfg)
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if not OmegaConf.has_resolver(OPTIONS):  # composed without ganexp's command line, which knows of further folders
        register_resolver(OPTIONS, lambda group: OmegaConf.create(options_in(group)))
    try:
        values = OmegaConf.to_container(cfg, resolve=True)
    except OmegaConfBaseException as error:
        reason = one_line(error)
        raise UserError(f"{error.full_key or 'The configuration'} cannot be resolved: {reason}.") from error
    assert isinstance(values, dict)
    match values:
        case {"evaluation": {"protocol": str()}, "measure": dict(measures)}:  # settings of unlisted measures lapse
            values["measure"] = {key: node for key, node in measures.items() if key == "auto" or "_target_" in node}
    return {str(key): value for key, value in values.items()}


def dotted(config: dict[str, Any]) -> dict[str, Any]:
    """Return every value of a configuration under its dotted key; for a group of several members, their order as well."""
    return {key: f"[{','.join(config[key])}]" for key in LISTS if isinstance(config.get(key), dict)} | dict(flat(config))


def flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value that is not a dictionary, under its dotted key."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def evaluated(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a run's configuration, as plain values, changed so that it is evaluated as requested."""
    evaluation = {key: value for key, value in changes.items() if value is not None}
    top = {key: evaluation.pop(key) for key in ("device", "measure") if key in evaluation}
    recorded = values.get("evaluation")
    return values | top | {"evaluate_every": 1, "evaluation": (recorded if isinstance(recorded, dict) else {}) | evaluation}
