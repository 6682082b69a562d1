"""Which keys the rows of a configured run will have."""

from collections.abc import Mapping
from typing import Literal

from ganexp.configuration.schema import Config, ConfigError, Node
from ganexp.configuration.targets import Trust, name_of, target
from ganexp.instruments.measure import Measure
from ganexp.runs.keys import known, may_be_logged


def measures_of(node: Node, trust: Trust = None, group: Literal["loss", "augment"] = "loss") -> Mapping[str, Measure]:
    """Return what a loss, and the one that it is built around, or an augmentation, declare that they measure, by key."""
    measures: Mapping[str, Measure] = target(node, group, trust).measures  # type: ignore[attr-defined]
    base = node.get("base")
    return {**measures_of(base, trust), **measures} if isinstance(base, dict) else measures


def measured_by(config: Config) -> dict[str, Measure]:
    """Return what the parts of a run declare that they measure, by key."""
    return {**measures_of(config.loss), **measures_of(config.augment, group="augment")}


def refuse_unknown_metric(key: str, metric: str | None, loss: Node, augment: Node, trust: Trust = None) -> None:
    """Refuse what no row of a run with this loss and this augmentation will have.

    Raises:
        ConfigError: There is no such key of the rows.
    """
    if metric is None:
        return
    measures = {**measures_of(loss, trust), **measures_of(augment, trust, "augment")}
    if not may_be_logged(metric, measures):
        chosen = f"loss={name_of(loss)}" + ("" if name_of(augment) == "none" else f" and augment={name_of(augment)}")
        raise ConfigError(f"{key}={metric} is not logged with {chosen}; choose one of {', '.join(sorted(known(measures)))}.")
