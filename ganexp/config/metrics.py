"""The keys in the rows of a configured run, and whether their lowest or highest value is best."""

import difflib
import functools
from collections.abc import Mapping
from typing import Any, Literal, get_args

from ganexp.config.choices import measures_in, name_of
from ganexp.config.defaults import options_in
from ganexp.config.plain import plain
from ganexp.config.schema import Node
from ganexp.config.targets import Trust, target
from ganexp.evaluation import Measure
from ganexp.facts import UserError
from ganexp.instruments.scalar import Scalar
from ganexp.logging.keys import known

Measuring = Literal["loss", "augment", "generator"]
MEASURING: tuple[Measuring, ...] = get_args(Measuring)
"""The groups whose members declare `measures` by key."""


@functools.cache
def measures_offered() -> dict[str, type[Measure[Any]]]:
    """Return the classes of the measures of ganexp and of plug-ins, by name."""
    return {name: target(node, "measure") for name, node in options_in("measure").items()}  # type: ignore[misc]


def measures_of(node: Node, trust: Trust = None, group: Measuring = "loss") -> Mapping[str, Scalar]:
    """Return the measures, by key, that a part declares, and a loss together with the one that it is built around."""
    measures: Mapping[str, Scalar] = getattr(target(node, group, trust), "measures", {})
    base = node.get("base")
    return {**measures_of(base, trust), **measures} if isinstance(base, dict) else measures


def measured_by(cfg: Any, trust: Trust = None) -> dict[str, Scalar]:
    """Return the measures, by key, that the loss, the augmentation, the generator and the terms of a configuration declare."""
    parts = [measures_of(plain(getattr(cfg, group)), trust, group) for group in MEASURING]
    declared = {key: measure for measures in parts for key, measure in measures.items()}
    for name, node in plain(cfg.term).items():
        declared[f"terms/{name}"] = target(node, f"term.{name}", trust).measures  # type: ignore[attr-defined]
    return declared


def refuse_unknown_metric(
    key: str,
    metric: str,
    cfg: Any,
    trust: Trust = None,
    *,
    figures: Mapping[str, Scalar] | None = None,
) -> None:
    """Refuse a metric that no row of a run with these choices will have.

    Args:
        key: The key of the configuration that names the metric.
        metric: A key of the rows.
        cfg: The configuration.
        trust: Modules from which they may come.
        figures: The figures of the run's evaluation, if they are known.
    """
    by_key = {figure: name for name, measure in measures_offered().items() for figure in measure.keys}
    if figures is not None and metric not in figures and (first := _in_first_features(metric)) in by_key:
        features = "" if first == metric else f" evaluation.features=[…,{metric.removeprefix(first)[1:]}]"
        raise UserError(
            f"{key}={metric} is a figure of evaluations, and this run has no such evaluation: choose evaluate_every=… and "
            f"measure=[{by_key[first]}]{features}."
        )
    loss, augment = plain(cfg.loss), plain(cfg.augment)
    logged = known(measured_by(cfg, trust))
    if metric not in logged and not metric.startswith("eval/"):
        named = f"loss={name_of(loss)}" + ("" if name_of(augment) == "none" else f" and augment={name_of(augment)}")
        keys = sorted({**logged, **by_key})
        close = [key for key in keys if key.endswith(f"/{metric}")] or difflib.get_close_matches(metric, keys, n=1)
        meant = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(keys)}."
        raise UserError(f"{key}={metric} is not logged with {named}; {meant}")


def high_is_best(key: str, metric: str, cfg: Any, trust: Trust = None) -> bool:
    """Return whether a key of a configuration's rows declares that its highest value is best.

    Args:
        key: The key of the configuration that names it, `keep_best` or `sweep.metric`.
        metric: A key of the rows.
        cfg: The configuration.
        trust: Modules from which its parts may come.

    Raises:
        UserError: It declares no best value.
    """
    further: Any = (target(node, f"measure.{name}", trust) for name, node in measures_in(plain(cfg.measure)).items())
    figures = {key: figure for measure in (*measures_offered().values(), *further) for key, figure in measure.keys.items()}
    declared = {**known(measured_by(cfg, trust)), **figures}.get(_in_first_features(metric))
    if declared is not None and not declared.best:
        remedy = "add sweep.direction=minimize or maximize" if key == "sweep.metric" else "choose another key"
        raise UserError(
            f"{key}={metric} does not say whether its lowest or its highest value is best: {remedy}, or declare best=… in the "
            "Scalar of a part of your own."
        )
    return declared is not None and declared.best == "highest"


def _in_first_features(key: str) -> str:
    """Return the key of the same figure in the first features, which does not end in the name of features."""
    return "/".join(key.split("/")[:2]) if key.startswith("eval/") else key
