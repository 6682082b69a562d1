"""Everything with state, gathered, written, read and put back: a run that is resumed is the run that was not interrupted."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ganexp.logbook.documents import written_whole
from ganexp.training.fitting import adapted, refuse_unfitting
from ganexp.training.random_states import random_states, set_random_states
from ganexp.training.untrusted import CheckpointError as CheckpointError
from ganexp.training.untrusted import refuse_bomb, refuse_oversized

if TYPE_CHECKING:
    from ganexp.training.trainer import Trainer

State = dict[str, Any]
"""Tensors and plain values only, so that reading a file runs no code from it."""

FORMAT = 3
HARMLESS = ("iterations", "log_every", "sample_every", "checkpoint_every", "keep_checkpoints", "keep_best", "on_divergence")
HARMLESS_GROUPS = ("wandb", "sweep", "resume", "workers", "data_root", "feed", "threads", "cuda_graph", "trust")


def capture(trainer: "Trainer") -> State:
    """Gather the state of a run between two iterations."""
    gan = trainer.gan
    return {
        "format": FORMAT,
        "torch": str(torch.__version__),
        "config": trainer.config,
        "shape": trainer.shape,
        "generator": gan.generator.state_dict(),
        "discriminator": gan.discriminator.state_dict(),
        "loss": gan.loss.state_dict(),
        "penalty": gan.penalty.state_dict(),
        "ema": trainer.ema.state_dict(),
        "strategy": getattr(trainer.strategy, "state_dict", dict)(),
        "optimizer_g": gan.optimizer_g.state_dict(),
        "optimizer_d": gan.optimizer_d.state_dict(),
        "latents": gan.prior.generator.get_state(),
        "random": random_states(trainer.device),
        "meter": gan.meter.state_dict(),
        "last_real": gan.last_real,
        "last_fake": gan.last_fake,
        "updates": dict(gan.updates),
        "iteration": trainer.iteration,
        "data": trainer.reals.digest,
        "real_batches": trainer.reals.batches,
        "real_images": trainer.reals.images,
        "wall_s": trainer.wall_s(),
        "best": trainer.best,
        "rollbacks": trainer.rollbacks,
    }


def restore(trainer: "Trainer", state: State) -> None:
    """Put a state back into a trainer that was built in the same way.

    Raises:
        CheckpointError: It does not fit; the trainer is as it was.
    """
    before, now = str(state.get("data", "")), trainer.reals.digest
    if before and now and before != now:
        raise CheckpointError("the data are not those that the run was trained on: bring them back, or begin a new run")
    gan = trainer.gan
    try:
        refuse_unfitting(trainer, capture(trainer), state)
    except Exception as error:  # what a tampered value makes a stream or a strategy raise has no common type
        reason = " ".join(str(error).split())[:200]
        said = reason if type(error) is ValueError else f"{type(error).__name__}: {reason}"
        raise CheckpointError(f"the checkpoint does not fit this run ({said})") from error
    gan.generator.load_state_dict(state["generator"])
    gan.discriminator.load_state_dict(state["discriminator"])
    gan.loss.load_state_dict(state["loss"])
    gan.penalty.load_state_dict(state["penalty"], trainer.device)
    trainer.ema.load_state_dict(state["ema"], state["iteration"])
    if state["strategy"]:
        getattr(trainer.strategy, "load_state_dict")(_on(trainer.device, state["strategy"]))  # noqa: B009
    gan.optimizer_g.load_state_dict(adapted(gan.optimizer_g, state["optimizer_g"]))
    gan.optimizer_d.load_state_dict(adapted(gan.optimizer_d, state["optimizer_d"]))
    gan.prior.generator.set_state(state["latents"])
    set_random_states(state["random"], trainer.device)
    gan.meter.load_state_dict(_on(trainer.device, state["meter"]), trainer.device)
    gan.last_real, gan.last_fake = _on(trainer.device, state["last_real"]), _on(trainer.device, state["last_fake"])
    gan.updates.clear()
    gan.updates.update(state["updates"])
    trainer.iteration = state["iteration"]
    trainer.reals.seek(state["real_batches"], state["real_images"])
    trainer.earlier_s, trainer.best = float(state["wall_s"]), state["best"]
    trainer.rollbacks = max(trainer.rollbacks, state["rollbacks"])  # one that is under way is not forgotten


def save(state: State, folder: Path, *, keep: int) -> None:
    """Write `iteration_<n>.pt`, point `last.pt` at it and delete all but the newest `keep`; each step is atomic.

    Raises:
        OSError: It could not be written; what was there is untouched.
    """
    path = folder / f"iteration_{state['iteration']:09d}.pt"
    write(state, path)
    point(folder / "last.pt", path)
    for old in sorted(folder.glob("iteration_*.pt"))[:-keep]:
        old.unlink(missing_ok=True)


def write(state: State, path: Path) -> None:
    """Write a checkpoint so that `path` holds a whole one at every moment: beside it first, then renamed over it.

    Raises:
        OSError: It could not be written; what was there is untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # what torch makes of an error of the file, as on a full disk
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def point(name: Path, path: Path) -> None:
    """Let a second name stand for a file, by a link where there are links."""
    unfinished = name.with_suffix(f".{os.getpid()}.unfinished")
    unfinished.unlink(missing_ok=True)
    try:
        os.link(path, unfinished)
    except OSError:  # a file system without links
        shutil.copyfile(path, unfinished)
    unfinished.replace(name)
    unfinished.unlink(missing_ok=True)  # renaming a link over a link to the same file does nothing


def load(path: Path) -> State:
    """Read a checkpoint; nothing in the file is executed, and no more memory is taken than the file is large.

    Raises:
        CheckpointError: There is none, it is broken, or it is not one of ganexp's.
    """
    try:
        refuse_bomb(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except CheckpointError:
        raise
    except FileNotFoundError:
        raise CheckpointError(f"{path} is not there; an interrupted run has one from its first checkpoint on") from None
    except Exception as error:  # what a broken or hostile file makes torch raise has no common type
        reason = " ".join(str(error).split())[:120]
        raise CheckpointError(f"{path} cannot be read as a checkpoint ({type(error).__name__}: {reason})") from None
    ours = isinstance(state, dict) and type(state.get("format")) is int and state["format"] == FORMAT
    if not ours or not isinstance(state.get("config"), dict):
        raise CheckpointError(f"{path} is no checkpoint of this version of ganexp")
    refuse_oversized(path, state)
    if type(state.get("iteration")) is not int or state["iteration"] < 0:
        raise CheckpointError(f"{path} does not say at which iteration it was written")
    return state


def contradictions(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the keys, dotted, in which two configurations differ and that change what is trained."""
    old, new = dict(_flat(before)), dict(_flat(now))
    differing = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    return [key for key in differing if key not in HARMLESS and key.partition(".")[0] not in HARMLESS_GROUPS]


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in values.items():
        pairs += _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]
    return pairs


def _on(device: torch.device, value: Any) -> Any:
    """Return a copy on a device, in which no two tensors share memory."""
    if isinstance(value, torch.Tensor):
        return value.to(device, copy=True)
    if isinstance(value, dict):
        return {key: _on(device, item) for key, item in value.items()}
    return [_on(device, item) for item in value] if isinstance(value, list) else value
