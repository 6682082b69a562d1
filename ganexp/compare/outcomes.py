"""The results of runs for a ranking: comparable figures, or the reason why a run has none."""

import contextlib
import json
import math
from collections.abc import Sequence
from dataclasses import replace

from ganexp.compare.ranking import Outcome, Ranking, ranked
from ganexp.config.plain import flat
from ganexp.config.targets import target
from ganexp.facts import UserError
from ganexp.logging.keys import known
from ganexp.logging.reading import RecordedRun


def rankings(
    runs: Sequence[RecordedRun], names: Sequence[str], combinations: Sequence[str], metric: str, direction: str = "auto"
) -> tuple[list[Ranking], str]:
    """Return rankings of combinations by a key of the rows, and whether the lowest or the highest figures are best.

    Args:
        runs: The runs.
        names: Their names.
        combinations: The combination of settings of each run; runs of one combination differ in the seed.
        metric: The key.
        direction: As for `best_of`.
    """
    described = zip(runs, names, combinations, bases(runs, metric), strict=True)
    outcomes = [outcome(run, name, combination, metric, basis) for run, name, combination, basis in described]
    best = best_of(runs, metric, direction) if any(result.value is not None for result in outcomes) else "lowest"
    measures = [known(run.measures).get(metric) for run in runs]
    notes = {measure.basis: measure.note for measure in measures if measure}
    return [
        replace(ranking, note=next((notes[basis] for basis in notes if basis and ranking.basis.endswith(basis)), ""))
        for ranking in ranked(outcomes, best)
    ], best


def of_one_algorithm(runs: Sequence[RecordedRun]) -> list[str]:
    """Return sentences about strategies of these runs that make the same updates, and so have equal figures.

    They are found by what ganexp's own strategies declare, which holds with one update of each network.
    """
    chosen = {
        str(node["name"]): node for run in runs if isinstance(node := run.config.get("strategy"), dict) and "name" in node
    }
    own = [name for name, node in chosen.items() if str(node.get("_target_")).startswith("ganexp.strategies.")]
    if len(own) < 2 or any(run.config.get(key, 1) != 1 for run in runs for key in ("d_steps", "g_steps")):
        return []
    alike: dict[str, list[str]] = {}
    for name in own:
        with contextlib.suppress(UserError):  # of a run by another version, which had it
            alike.setdefault(getattr(target(chosen[name], "strategy", ()), "equals", "") or name, []).append(name)
    return [
        f"{', '.join(names[:-1])} and {names[-1]} are one algorithm: their updates are equal, apart from rounding."
        for names in alike.values()
        if len(names) > 1
    ]


def outcome(run: RecordedRun, name: str, combination: str, metric: str, basis: str) -> Outcome:
    """Return the figure of a run's last row, or why there is none: the run is not finished, or the figure is not finite."""
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


def bases(runs: Sequence[RecordedRun], metric: str) -> list[str]:
    """Return the basis of each run's figure: the data settings that differ between runs, and that of the measure."""
    data = [dict(flat({"dataset": run.config.get("dataset")})) for run in runs]
    of_configured = [settings for settings, run in zip(data, runs, strict=True) if run.config]
    keys = [key for key in dict.fromkeys(key for settings in of_configured for key in settings) if not key.endswith("_target_")]
    differing = [key for key in keys if len({json.dumps(settings.get(key)) for settings in of_configured}) > 1]
    described = []
    for run, settings in zip(runs, data, strict=True):
        parts = [f"{key.removesuffix('.name')}={settings[key]}" for key in differing if key in settings]
        measure = known(run.measures).get(metric)
        described.append(", ".join([*parts, measure.basis] if measure and measure.basis else parts))
    return described


def best_of(runs: Sequence[RecordedRun], metric: str, direction: str = "auto") -> str:
    """Return which figures are best, `lowest` or `highest`: with `auto` as the key declares, else by Optuna's `direction`."""
    if direction != "auto":
        return "highest" if direction == "maximize" else "lowest"
    declared = [known(run.measures)[metric].best for run in runs if metric in known(run.measures)]
    if not declared or not declared[0]:
        raise UserError(
            f"{metric} does not say which of its values are best: ganexp report FOLDER --metric {metric} "
            "--direction minimize, or maximize, ranks by it"
        )
    return declared[0]
