"""Which keys the rows of a configured run will have."""

from collections.abc import Mapping

from ganexp.configuration.schema import ConfigError, Node
from ganexp.configuration.targets import Trust, name_of, target
from ganexp.evaluation import MEASURES
from ganexp.instruments.measure import Measure
from ganexp.runs.keys import known, may_be_logged

FIGURES = {key: name for name, measure in MEASURES.items() for key in measure.keys}
"""By key of the rows, the measure that makes it."""


def direction_of(metric: str) -> str:
    """Return how a search should optimise a figure of an evaluation, `minimize` or `maximize`; empty for any other key."""
    if metric not in FIGURES:
        return ""
    return "maximize" if MEASURES[FIGURES[metric]].keys[metric].best == "highest" else "minimize"


def measures_of(loss: Node, trust: Trust = None) -> Mapping[str, Measure]:
    """Return what a loss declares that it measures, by key."""
    measures: Mapping[str, Measure] = target(loss, "loss", trust).measures  # type: ignore[attr-defined]
    return measures


def refuse_unknown_metric(
    key: str, metric: str | None, loss: Node, trust: Trust = None, *, figures: Mapping[str, Measure] | None = None
) -> None:
    """Refuse what no row of a run with this loss will have.

    Args:
        key: What names the metric.
        metric: A key of the rows, or None.
        loss: The loss.
        trust: Modules from which it may come.
        figures: What the run's evaluation makes, if that is known.

    Raises:
        ConfigError: There is no such key of the rows.
    """
    if metric is None:
        return
    if figures is not None and metric not in figures and metric in FIGURES:
        raise ConfigError(
            f"{key}={metric} needs an evaluation that has it: choose evaluate_every=… and "
            f"evaluation.measures=[{FIGURES[metric]}]."
        )
    measures = measures_of(loss, trust)
    if not may_be_logged(metric, measures):
        raise ConfigError(
            f"{key}={metric} is not logged with loss={name_of(loss)}; choose one of {', '.join(sorted(known(measures)))}."
        )
