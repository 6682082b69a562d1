"""Folders of runs and sweeps."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from ganexp.documents import Unwritable, refuse_unwritable, write_text
from ganexp.facts import UserError
from ganexp.logging.layout import RunFolder
from ganexp.logging.lock import FolderLocked, lock

log = logging.getLogger(__name__)


def make_new(folder: Path) -> Path:
    """Make a new folder; if another process has taken the name, append a number."""
    number, new = 1, folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)  # outside the loop: a broken link raises FileExistsError here too
        while True:
            try:
                new.mkdir()
                return new
            except FileExistsError:
                number += 1
                new = folder.with_name(f"{folder.name}_{number}")
    except OSError as error:
        raise UserError(f"{folder} cannot be made ({error}): choose another hydra.run.dir or hydra.sweep.dir.") from None


def refuse_unmakeable(folder: Path, key: str) -> None:
    """Refuse a folder that nothing could be written to, before torch is imported; nothing is left behind."""
    try:
        refuse_unwritable(RunFolder(folder).rows)
    except OSError as error:
        raise UserError(f"{folder} cannot be made or written ({error.strerror}): choose another {key}.") from None


def lock_or_refuse(folder: Path, remedy: str) -> None:
    """Make a folder if it does not exist, and lock it against other processes.

    Args:
        folder: The folder of a run or a sweep.
        remedy: What the user can do if this fails.
    """
    try:
        lock(folder)
    except FolderLocked as error:
        raise UserError(f"{folder} is in use ({error}): {remedy}.") from None
    except Unwritable as error:
        raise UserError(f"{error.filename} cannot be written: {error.strerror}.") from None
    except OSError as error:
        raise UserError(f"{folder} cannot be made and locked ({error}): {remedy}.") from None


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the files of a new run that depend only on its configuration."""
    try:
        for name, text in texts.items():
            write_text(folder / name, text)
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error}): make room, or choose another hydra.run.dir.") from None


def point_latest_at(folder: Path) -> None:
    """Make `outputs/latest` a link to the newest run or sweep; a file system without links gets none."""
    link = folder.parent / "latest"
    if folder.parent.name != "outputs" or folder.name == link.name or (link.exists() and not link.is_symlink()):
        return
    fresh = link.with_name(f".latest-{os.getpid()}")
    try:
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(folder.name, target_is_directory=True)
        fresh.replace(link)
    except OSError as error:
        log.debug("No link %s: %s", link, error)
