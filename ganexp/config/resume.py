"""Whether a checkpoint can be resumed with a configuration."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ganexp.config.choices import measures_in, name_of
from ganexp.config.defaults import completed
from ganexp.config.plain import dotted
from ganexp.config.schema import effect_of
from ganexp.facts import UserError
from ganexp.logging.layout import RunFolder
from ganexp.logging.summary import read_summary
from ganexp.training import CheckpointError
from ganexp.training.checkpoint import State, load


class Checkpoint(NamedTuple):
    """A checkpoint that has been read, for a run that goes on from it."""

    path: Path
    state: State

    @classmethod
    def read(cls, path: Path) -> "Checkpoint":
        """Read a checkpoint."""
        try:
            return cls(path, load(path))
        except CheckpointError as error:
            earlier = [other for other in RunFolder.of_checkpoint(path).numbered if other != path]
            remedy = f": go on from an earlier one, resume={earlier[-1]}" if earlier else ""
            raise UserError(f"resume: {error}{remedy}.") from error

    def refuse(self, values: dict[str, Any]) -> None:
        """Refuse another configuration, or a finished run; the state then knows the run's end and its best value."""
        path, state, values = self.path, self.state, completed(values)
        reals = state["run"].get("reals")
        has_digest = isinstance(reals, dict) and reals.get("digest")
        moved = {"dataset.path", "dataset.root"} if has_digest else set()  # the digest tells whether the data are the same
        moved |= {"schedule.end"} if _rates(state) else set()
        if differing := [key for key in contradictions(state["config"], values) if key not in moved]:
            raise _other(path, differing)
        ended = read_summary(RunFolder.of_checkpoint(path).path).get("state") == "finished"
        iteration = state["run"]["iteration"]
        if iteration > values["iterations"] or (iteration == values["iterations"] and ended):
            raise _finished(path, state, values)
        trained = state["run"]["trained_s"] / 60
        if values["minutes"] is not None and trained >= values["minutes"]:
            raise UserError(
                f"resume: {path} has been trained for its minutes={values['minutes']:g}: to train on, give more than "
                f"{trained:.3g}, or minutes=null."
            )
        if _rates(state):
            _move_end(path, state, values)
        if values["keep_best"]:
            _know_best(path, state, values)


def _other(path: Path, differing: Sequence[str]) -> UserError:
    """Return the sentence for a run with other values of some keys."""
    keys = ", ".join(sorted({key.removesuffix(".name").removesuffix("._target_") for key in differing}))
    keys = " ".join(keys.split())[:200]  # keys from the file may be anything
    return UserError(
        f"resume: {path} was trained with other values of {keys}: leave them as they were, or begin a new run from its "
        f"weights, init_from={path}."
    )


def _finished(path: Path, state: State, values: dict[str, Any]) -> UserError:
    """Return the sentence for a run that has made all iterations that are asked for."""
    iteration, planned = state["run"]["iteration"], completed(state["config"])["iterations"]
    if iteration < planned:
        return UserError(
            f"resume: {path} has made {iteration} iterations, and iterations={values['iterations']} asks for no more: "
            f"leave iterations out to go on to {planned}, or give more than {iteration}."
        )
    spent = _rates(state).get("end", iteration + 1) <= iteration and _final(values.get("schedule", {})) == 0
    more = f"iterations={2 * iteration}" + f" schedule.end={2 * iteration}" * spent
    return UserError(f"resume: {path} has finished its {iteration} iterations: to train on, raise them, as by {more}.")


def _move_end(path: Path, state: State, values: dict[str, Any]) -> None:
    """Give a schedule that ends the end that is new in the configuration; without one, it keeps its own."""
    rates, before, schedule = _rates(state), completed(state["config"]), values.get("schedule", {})
    iterations, end = values["iterations"], schedule.get("end")
    if end != before.get("schedule", {}).get("end"):
        rates["end"] = iterations if end is None else end
    elif before["iterations"] < iterations > rates["end"] and _final(schedule) == 0:
        raise UserError(
            f"resume: schedule={name_of(schedule)} brings learning rates to 0 at iteration {rates['end']}, and nothing would "
            f"be trained after it: let it end later, schedule.end={iterations}, or begin a new run, init_from={path}."
        )


def endings(state: State, values: dict[str, Any]) -> list[str]:
    """Return a sentence about each schedule that ends before a run whose iterations were raised."""
    values = completed(values)
    iterations = values["iterations"]
    if completed(state["config"])["iterations"] >= iterations:
        return []
    rates, schedule = _rates(state), state["run"]["step"]["schedule"]
    notes = []
    if rates and rates["end"] < iterations:
        notes.append(
            f"schedule={name_of(values['schedule'])} ends at iteration {rates['end']:,}, and learning rates then stay at "
            f"{_final(values['schedule']):g} times what they were: schedule.end={iterations} moves its end."
        )
    moved = {key: end for key, end in schedule.get("ends", {}).items() if end < iterations}
    notes += [f"moving.{key} reaches its final value at iteration {end:,}, and stays there." for key, end in moved.items()]
    return notes


def _rates(state: State) -> dict[str, Any]:
    """Return the state of a schedule of learning rates that ends; empty if there is none."""
    step = state["run"].get("step")
    schedule = step.get("schedule") if isinstance(step, dict) else None
    rates = schedule.get("rates", schedule) if isinstance(schedule, dict) else None
    return rates if isinstance(rates, dict) and type(rates.get("end")) is int else {}


def _final(schedule: dict[str, Any]) -> float:
    """Return the share of the rates at which a schedule that ends leaves them; that of a foreign one is taken to be above 0."""
    return float(schedule.get("final", not str(schedule.get("_target_")).startswith("ganexp.")))


def _know_best(path: Path, state: State, values: dict[str, Any]) -> None:
    """Take the best value from `best.pt`, which may be from a later iteration than the checkpoint.

    Without that file it is the checkpoint's own. It is forgotten where `keep_best`, `evaluation` or settings of a measure have
    changed: old and new values are not comparable.
    """
    states = [state]
    with suppress(CheckpointError):
        states.insert(0, load(RunFolder.of_checkpoint(path).best))
    records = (record["run"].get("checkpoints") for record in states if _measured_alike(completed(record["config"]), values))
    kept = next((record for record in records if isinstance(record, dict)), {"lowest": float("inf")})
    if isinstance(state["run"].get("checkpoints"), dict):
        state["run"]["checkpoints"] = {"best_at": 0} | kept  # checkpoints of earlier versions lack it


def _measured_alike(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Return whether values of `keep_best` are comparable between two configurations."""
    try:
        old, new = (measures_in(values["measure"]) for values in (before, now))
    except AttributeError:  # anything may be in a file
        return False
    same = all(before[key] == now[key] for key in ("keep_best", "evaluation"))
    return same and all(old[name] == new[name] for name in old.keys() & new.keys())


def contradictions(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the dotted keys in which two configurations differ, as far as they change the training or the machine."""
    old, new = dotted(completed(before)), dotted(completed(now))
    differing = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    return [key for key in differing if effect_of(key) in ("training", "machine")]
