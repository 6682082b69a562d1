"""Checkpoint files: written atomically, read without being trusted."""

import os
import shutil
from pathlib import Path
from typing import Any

import torch

from ganexp.logging.documents import atomic_write
from ganexp.logging.layout import RunFolder
from ganexp.training.untrusted import CheckpointError, refuse_bomb, refuse_oversized

State = dict[str, Any]
"""Tensors and plain values only, so that reading a file runs no code from it."""

FORMAT = 6


def stamped(run: State, config: dict[str, Any], shape: list[int] | None, classes: int = 0) -> State:
    """Return a run's state with what makes a file of it that stands by itself.

    Args:
        run: The state of the trainer.
        config: The run's configuration as plain values.
        shape: Of one sample, so that the generator can be built again without the data.
        classes: How many its labels are of, if there are any; for the same reason.
    """
    return {"format": FORMAT, "torch": str(torch.__version__), "config": config, "shape": shape, "classes": classes, "run": run}


def save(state: State, folder: RunFolder, *, keep: int) -> None:
    """Write `iteration_<n>.pt`, point `last.pt` at it and delete all but the newest `keep`; each step is atomic.

    Those of later iterations, which a run that was resumed from an earlier one has left, go as well.

    Raises:
        OSError: It could not be written; what was there is untouched.
    """
    path = folder.checkpoint(state["run"]["iteration"])
    write(state, path)
    point(folder.last, path)
    numbered = folder.numbered
    kept = [one for one in numbered if one <= path][-keep:]
    for other in numbered:
        if other not in kept:
            other.unlink(missing_ok=True)


def write(state: State, path: Path) -> None:
    """Write a checkpoint atomically: to a temporary file first, which is then renamed over `path`.

    Raises:
        OSError: It could not be written; what was there is untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # what torch makes of an error of the file, as on a full disk
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def point(name: Path, path: Path) -> None:
    """Give a file a second name: a hard link, or a copy where there are no links."""
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
    if not ours or not isinstance(state.get("config"), dict) or not isinstance(state.get("run"), dict):
        raise CheckpointError(f"{path} is no checkpoint of this version of ganexp")
    refuse_oversized(path, state)
    if type(state["run"].get("iteration")) is not int or state["run"]["iteration"] < 0:
        raise CheckpointError(f"{path} does not say at which iteration it was written")
    return state
