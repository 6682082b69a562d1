"""The results of runs for a ranking: comparable figures, or the reason why a run has none."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace

from ganexp.compare.ranking import Outcome, Ranking, ranked
from ganexp.config.plain import flat
from ganexp.logging.keys import known
from ganexp.logging.reading import RecordedRun


def rankings(
    found: Sequence[RecordedRun], names: Sequence[str], combinations: Sequence[str], metric: str, direction: str = "auto"
) -> tuple[list[Ranking], str]:
    """Return rankings of combinations by a key of the rows, and which figures are best.

    Args:
        found: The runs.
        names: What each is called.
        combinations: The combination of settings of each; runs of one combination differ in the seed.
        metric: The key.
        direction: As for `best_of`.
    """
    told = zip(found, names, combinations, bases(found, metric), strict=True)
    best = best_of(found, metric, direction)
    ranks = ranked([outcome(run, name, of, metric, basis) for run, name, of, basis in told], best)
    measures = [known(run.measures).get(metric) for run in found]
    notes = {measure.basis: measure.note for measure in measures if measure}
    return [replace(one, note=next((notes[by] for by in notes if by and one.basis.endswith(by)), "")) for one in ranks], best


def outcome(run: RecordedRun, name: str, combination: str, metric: str, basis: str) -> Outcome:
    """Return what a run reached in its last row: only a finished run has a figure, and only if it is finite."""
    seed = run.config.get("seed", run.overrides.get("seed"))
    seed = f"that of {name}" if seed is None else str(seed)
    if run.state != "finished":
        return Outcome(name, combination, seed, reason=run.state)
    value = run.rows[-1].get(metric) if run.rows else None
    if value is None or isinstance(value, str):
        return Outcome(name, combination, seed, reason=f"finished without {metric} in the last row")
    if not math.isfinite(value):
        return Outcome(name, combination, seed, reason=f"diverged: {metric} is {value}")
    return Outcome(name, combination, seed, float(value), basis=basis)


def bases(found: Sequence[RecordedRun], metric: str) -> list[str]:
    """Return the basis of each run's figure: data settings where they differ, and what the measure says, such as features."""
    data = [dict(flat({"dataset": run.config.get("dataset")})) for run in found]
    there = [one for one, run in zip(data, found, strict=True) if run.config]
    keys = [key for key in dict.fromkeys(key for one in there for key in one) if not key.endswith("_target_")]
    differing = [key for key in keys if len({json.dumps(one.get(key)) for one in there}) > 1]
    said = []
    for run, one in zip(found, data, strict=True):
        parts = [f"{key.removesuffix('.name')}={one[key]}" for key in differing if key in one]
        measure = known(run.measures).get(metric)
        said.append(", ".join([*parts, measure.basis] if measure and measure.basis else parts))
    return said


def best_of(found: Sequence[RecordedRun], metric: str, direction: str = "auto") -> str:
    """Return which figures are best, `lowest` or `highest`, given a direction in Optuna's words.

    With `auto`, the key declares which; if it declares nothing, the lowest is best.
    """
    if direction != "auto":
        return "highest" if direction == "maximize" else "lowest"
    declared = [known(run.measures)[metric].best for run in found if metric in known(run.measures)]
    return "highest" if "highest" in declared[:1] else "lowest"
