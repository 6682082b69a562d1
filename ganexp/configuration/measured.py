"""Which keys the rows of a configured run will have."""

from collections.abc import Mapping

from ganexp.configuration.schema import ConfigError, Node
from ganexp.configuration.targets import Trust, name_of, target
from ganexp.instruments.measure import Measure
from ganexp.runs.keys import known, may_be_logged


def measures_of(loss: Node, trust: Trust = None) -> Mapping[str, Measure]:
    """Return what a loss declares that it measures, by key."""
    measures: Mapping[str, Measure] = target(loss, "loss", trust).measures  # type: ignore[attr-defined]
    return measures


def refuse_unknown_metric(key: str, metric: str | None, loss: Node, trust: Trust = None) -> None:
    """Refuse what no row of a run with this loss will have.

    Raises:
        ConfigError: There is no such key of the rows.
    """
    if metric is None:
        return
    measures = measures_of(loss, trust)
    if not may_be_logged(metric, measures):
        raise ConfigError(
            f"{key}={metric} is not logged with loss={name_of(loss)}; choose one of {', '.join(sorted(known(measures)))}."
        )


def high_is_best(metric: str, loss: Node, trust: Trust = None) -> bool:
    """Return whether a key of the rows declares that its highest value is best."""
    measure = known(measures_of(loss, trust)).get(metric)
    return measure is not None and measure.best == "highest"
