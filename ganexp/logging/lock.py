"""One run per folder, and one process per run."""

import os
from pathlib import Path

from filelock import FileLock, Timeout

from ganexp.documents import refuse_links_out
from ganexp.facts import UserError
from ganexp.logging.layout import RunFolder

_held: dict[Path, FileLock] = {}
"""Locks that this process has taken and no logger has taken over yet."""


class FolderLocked(OSError):
    """Another process is training in a folder."""


def refuse_used(folder: Path) -> None:
    """Refuse a folder that holds a run, or files of its names, so that no two runs are mixed and nothing is overwritten."""
    if os.path.lexists(RunFolder(folder).rows):
        raise UserError(f"{folder} holds a run already: choose another folder, as by hydra.run.dir=….")
    run = RunFolder(folder)
    for path in (*run.results, run.best, run.last, *run.numbered, *run.pictures.glob("*.png")):
        if path.is_symlink() or path.is_file():
            raise UserError(f"{path} exists, and a run would write there: choose another folder, as by hydra.run.dir=….")


def lock(folder: Path) -> None:
    """Make a run folder, unless it is there, and lock it until this process ends or `unlock` is called.

    No link in it may lead out of it, since a run writes to several files and folders there. Locking a folder again changes
    nothing, as long as no logger has taken the lock over.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if folder.resolve() in _held:
        return
    refuse_links_out(folder)
    file = FileLock(RunFolder(folder).lock)
    try:
        file.acquire(timeout=0)
    except Timeout:
        raise FolderLocked(f"another process is training in {folder}") from None
    except NotImplementedError as error:
        raise OSError(f"{folder} cannot be locked: {error}") from None
    _held[folder.resolve()] = file


def hand_over(folder: Path) -> FileLock:
    """Return the lock of a folder that this process has locked; from now on, the caller has to release it."""
    return _held.pop(folder.resolve())


def unlock(folder: Path) -> None:
    """Release a folder, if this process has locked it and no logger has taken the lock over."""
    file = _held.pop(folder.resolve(), None)
    if file:
        file.release()


def is_locked(folder: Path) -> bool:
    """Return whether a process, this one included, is training in a folder."""
    path = RunFolder(folder).lock
    if not path.exists():
        return False
    try:
        with FileLock(path).acquire(timeout=0):
            return False
    except Timeout:
        return True
