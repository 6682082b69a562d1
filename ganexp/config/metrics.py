"""The keys in the rows of a configured run, and whether their lowest or highest value is best."""

import difflib
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from ganexp.config.choices import measures_in, name_of
from ganexp.config.defaults import options_in
from ganexp.config.schema import Node
from ganexp.config.targets import Trust, target
from ganexp.evaluation import Measure
from ganexp.facts import UserError
from ganexp.instruments.scalar import Scalar
from ganexp.logging.keys import known


@functools.cache
def measures_offered() -> dict[str, type[Measure[Any]]]:
    """Return the classes of the package's own measures, by name."""
    return {name: target(node, "measure") for name, node in options_in("measure").items()}  # type: ignore[misc]


def measures_of(node: Node, trust: Trust = None, group: Literal["loss", "augment"] = "loss") -> Mapping[str, Scalar]:
    """Return the measures, by key, that an augmentation declares, or a loss together with the one that it is built around."""
    measures: Mapping[str, Scalar] = target(node, group, trust).measures  # type: ignore[attr-defined]
    base = node.get("base")
    return {**measures_of(base, trust), **measures} if isinstance(base, dict) else measures


def measured_by(loss: Node, augment: Node, trust: Trust = None) -> dict[str, Scalar]:
    """Return the measures, by key, that a loss and an augmentation declare."""
    return {**measures_of(loss, trust), **measures_of(augment, trust, "augment")}


def refuse_unknown_metric(
    key: str,
    metric: str | None,
    loss: Node,
    augment: Node,
    trust: Trust = None,
    *,
    figures: Mapping[str, Scalar] | None = None,
) -> None:
    """Refuse a metric that no row of a run with this loss and this augmentation will have.

    Args:
        key: The key of the configuration that names the metric.
        metric: A key of the rows, or None.
        loss: The loss, which measures.
        augment: The augmentation, which measures as well.
        trust: Modules from which both may come.
        figures: The figures of the run's evaluation, if they are known.
    """
    if metric is None:
        return
    by_key = {one: name for name, measure in measures_offered().items() for one in measure.keys}
    if figures is not None and metric not in figures and (plain := _in_first_features(metric)) in by_key:
        features = "" if plain == metric else f" evaluation.features=[…,{metric.removeprefix(plain)[1:]}]"
        raise UserError(
            f"{key}={metric} is a figure of evaluations, and this run has no such evaluation: choose evaluate_every=… and "
            f"measure=[{by_key[plain]}]{features}."
        )
    logged = known(measured_by(loss, augment, trust))
    if metric not in logged and not metric.startswith("eval/"):
        chosen = f"loss={name_of(loss)}" + ("" if name_of(augment) == "none" else f" and augment={name_of(augment)}")
        keys = sorted({**logged, **by_key})
        close = [one for one in keys if one.endswith(f"/{metric}")] or difflib.get_close_matches(metric, keys, n=1)
        meant = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(keys)}."
        raise UserError(f"{key}={metric} is not logged with {chosen}; {meant}")


def high_is_best(
    metric: str | None, loss: Node, augment: Node, trust: Trust = None, chosen: Mapping[str, Node] = MappingProxyType({})
) -> bool:
    """Return whether a key of the rows declares that its highest value is best; `chosen` may hold further measures."""
    further: Any = (target(node, f"measure.{name}", trust) for name, node in measures_in(chosen).items())
    figures = {key: figure for measure in (*measures_offered().values(), *further) for key, figure in measure.keys.items()}
    declared = {**known(measured_by(loss, augment, trust)), **figures}.get(_in_first_features(metric or ""))
    return declared is not None and declared.best == "highest"


def _in_first_features(key: str) -> str:
    """Return the key of the same figure in the first features, which does not end in the name of features."""
    return "/".join(key.split("/")[:2]) if key.startswith("eval/") else key
