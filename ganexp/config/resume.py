"""Whether a checkpoint can be resumed with a configuration."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from ganexp.config.choices import measures_in
from ganexp.config.defaults import completed
from ganexp.config.plain import told
from ganexp.config.schema import ConfigError, effect_of
from ganexp.logging.layout import RunFolder
from ganexp.logging.summary import read_summary
from ganexp.training import CheckpointError
from ganexp.training.checkpoint import State, load


def loaded(path: Path, values: dict[str, Any]) -> State:
    """Read the checkpoint of an unfinished run with the same configuration.

    Raises:
        ConfigError: The run cannot be resumed.
    """
    try:
        state = load(path)
    except CheckpointError as error:
        earlier = [one for one in RunFolder.of_checkpoint(path).numbered if one != path]
        remedy = f": go on from an earlier one, resume={earlier[-1]}" if earlier else ""
        raise ConfigError(f"resume: {error}{remedy}.") from error
    values = completed(values)
    reals = state["run"].get("reals")
    has_digest = isinstance(reals, dict) and reals.get("digest")
    moved = ("dataset.path", "dataset.root") if has_digest else ()  # the digest tells whether the data are the same
    differing = [key for key in contradictions(state["config"], values) if key not in moved]
    if differing:
        keys = ", ".join(sorted({key.removesuffix(".name").removesuffix("._target_") for key in differing}))
        keys = " ".join(keys.split())[:200]  # keys from the file may be anything
        raise ConfigError(
            f"resume: {path} was trained with other values of {keys}: leave them as they were, or begin a new run."
        )
    ended = read_summary(RunFolder.of_checkpoint(path).path).get("state") == "finished"
    iteration = state["run"]["iteration"]
    if iteration > values["iterations"] or (iteration == values["iterations"] and ended):
        raise ConfigError(f"resume: {path} has all of its {iteration} iterations: give it more, iterations={2 * iteration}.")
    _know_best(state, values, RunFolder.of_checkpoint(path).best)
    return state


def _know_best(state: State, values: dict[str, Any], best: Path) -> None:
    """Let a run go on with the best value of `best.pt`, which a course that is left behind now may have reached.

    Without that file it is the checkpoint's own. It is forgotten where `keep_best`, `evaluation` or settings of a measure have
    changed: old and new values are not comparable.
    """
    known = [state]
    if values["keep_best"]:
        with suppress(CheckpointError):
            known.insert(0, load(best))
    found = (one["run"].get("checkpoints") for one in known if _measured_alike(completed(one["config"]), values))
    kept = next((one for one in found if isinstance(one, dict)), {"lowest": float("inf")})
    if isinstance(state["run"].get("checkpoints"), dict):
        state["run"]["checkpoints"] = {"best_at": 0} | kept  # checkpoints of earlier versions lack it


def _measured_alike(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Return whether values of `keep_best` mean the same in two configurations."""
    try:
        old, new = (measures_in(values["measure"]) for values in (before, now))
    except AttributeError:  # anything may be in a file
        return False
    same = all(before[key] == now[key] for key in ("keep_best", "evaluation"))
    return same and all(old[name] == new[name] for name in old.keys() & new.keys())


def contradictions(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the dotted keys in which two configurations differ and which change what is trained, or where."""
    old, new = told(completed(before)), told(completed(now))
    differing = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    return [key for key in differing if effect_of(key) in ("training", "machine")]
