"""Checkpoints as artifacts of W&B: what a run needs to be resumed, on another machine too."""

import logging
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ganexp.logging.layout import RunFolder
from ganexp.logging.wandb_account import WandbError, resolved_mode

if TYPE_CHECKING:
    import wandb

log = logging.getLogger(__name__)
SCHEME = "wandb://"
KIND = "checkpoint"
"""The type of the artifacts, and the first word of their names."""


def artifact_of(folder: Path, which: Literal["last", "best"], run_id: str) -> "wandb.Artifact | None":
    """Return an artifact with a checkpoint of a run and the documents that resuming reads; None if there is no checkpoint."""
    import wandb

    place = RunFolder(folder)
    checkpoint = place.last if which == "last" else place.best
    if not checkpoint.is_file():
        return None
    artifact = wandb.Artifact(f"{KIND}-{run_id}", type=KIND)
    for path in (checkpoint, *_documents(place)):
        if path.is_file():
            artifact.add_file(str(path), name=path.relative_to(folder).as_posix())
    return artifact


def fetched(name: str, outputs: Path) -> Path:
    """Return the checkpoint of an artifact, downloaded into a run folder of its own unless it is there already.

    If a run was resumed in that folder before, its newest checkpoint is returned.

    Args:
        name: `wandb://entity/project/artifact:version`; the default version is the latest, the default entity the account's.
        outputs: Where run folders lie; this one is named after the artifact and its version.

    Raises:
        WandbError: The name has another form, there is no account, or W&B does not return a checkpoint by that name.
        OSError: The folder cannot be written.
    """
    found = re.fullmatch(rf"{SCHEME}((?:[^/:]+/)?[^/:]+)/([\w.-]+)(?::([\w.-]+))?", name)
    if not found:
        raise WandbError(f"should be {SCHEME}entity/project/artifact:version")
    project, artifact, version = found[1], found[2], found[3] or "latest"
    there = _checkpoint_in(outputs / f"{artifact}-{version}") if re.fullmatch(r"v\d+", version) else None
    if there:
        return there  # needs no connection
    resolved_mode("online")
    import wandb

    try:
        stored = wandb.Api(timeout=60).artifact(f"{project}/{artifact}:{version}")
        folder = outputs / f"{artifact}-{stored.version}"
        if not _checkpoint_in(folder):
            _download(stored, folder)
    except (OSError, WandbError):
        raise
    except Exception as error:  # what W&B raises has no common type
        said = " ".join(str(error).split())[:300]
        raise WandbError(f"cannot be fetched from W&B ({type(error).__name__}: {said})") from None
    checkpoint = _checkpoint_in(folder)
    assert checkpoint is not None
    return checkpoint


def _download(stored: "wandb.Artifact", folder: Path) -> None:
    """Download the files that a run folder consists of, and no others, and make the folder once all are there."""
    place = RunFolder(folder)
    wanted = [path.relative_to(folder).as_posix() for path in (place.last, place.best, *_documents(place))]
    entries = stored.manifest.entries
    if not any(path.relative_to(folder).as_posix() in entries for path in (place.last, place.best)):
        raise WandbError("holds no checkpoint of ganexp")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching") as half:
        for name in wanted:
            if name in entries:
                stored.get_entry(name).download(root=half)
        try:
            Path(half).rename(folder)
        except OSError:
            if not _checkpoint_in(folder):  # unless another process has fetched it meanwhile
                raise
        else:
            os.makedirs(half)  # so that the temporary directory can be removed
    log.info("Fetched %s from W&B into %s.", stored.name, folder)


def _checkpoint_in(folder: Path) -> Path | None:
    place = RunFolder(folder)
    return next((path for path in (place.last, place.best) if path.is_file()), None)


def _documents(place: RunFolder) -> tuple[Path, ...]:
    return (place.command, place.config, place.rows, place.measures, place.wandb_id)
