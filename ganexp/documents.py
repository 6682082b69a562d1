"""Files that are written atomically, and only inside the folder that they belong to: links out of it are refused."""

import errno
import json
import os
import pickle
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zlib import crc32

from ganexp.printable import one_line

if TYPE_CHECKING:
    from torch import Tensor

DEEPEST = 32
"""No document of ganexp is nested deeper, and Python's stack is limited."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk."""
UNFINISHED = ".unfinished"
"""The suffix of a file that is being written; a killed process may leave one behind."""


class Unwritable(OSError):
    """A file cannot be written; the error names it."""


def unfinished_name(path: Path) -> Path:
    """Return where this process writes a file before it is complete: beside it, with a name that is never too long."""
    return path.with_name(f".{crc32(os.fsencode(path.name)):08x}.{os.getpid()}{UNFINISHED}")


@contextmanager
def atomic_write(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """Open a file to be written beside `path`, in a folder that is made if need be; once complete, it is renamed over `path`.

    If it is `durable`, it is flushed to disk first, so that not even a loss of power leaves half of it. Where it cannot be
    written, an `Unwritable` is raised: what was at `path` is untouched, and nothing else is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = unfinished_name(path)
    try:
        unfinished.unlink(missing_ok=True)
        with unfinished.open("xb") as file:  # a new one: a link of that name would lead elsewhere
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        if error.errno and error.filename in (None, str(unfinished)):  # the error of a full disk names no file
            raise Unwritable(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        unfinished.unlink(missing_ok=True)


def refuse_links_out(folder: Path) -> None:
    """Refuse a folder in which something, at any depth, is a link out of it: writing through the link would change other files.

    A pipe or a device in it is refused as well, for opening it may take for ever.
    """
    for place, folders, names in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *names)):
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                refuse_outside(path, folder)
            elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise Unwritable(errno.EINVAL, "it is neither a file nor a folder: remove it", str(path))


def refuse_outside(path: Path, folder: Path) -> None:
    """Refuse a place below a folder if a link on the way leads out of the folder."""
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise Unwritable(errno.EINVAL, "a link there leads out of the folder: remove it", str(path))


def refuse_unwritable(path: Path, size: int = 1) -> None:
    """Refuse, before the work, a path at which `size` bytes cannot be written; nothing is left behind, not even a folder."""
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(path.stat().st_mode):  # `is_dir` answers no to a name that is too long, from Python 3.14 on
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(size))  # one byte is enough for a full disk to refuse
    except OSError as error:
        raise Unwritable(error.errno, error.strerror, str(path)) from error


def refuse_taken(path: Path, overwrite: bool) -> None:
    """Refuse, before the work, a file that exists, unless it may be overwritten, or that cannot be written."""
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} is there already: add --overwrite to replace it, or name another place with --output")
    refuse_unwritable(path)


def write_state(path: Path, state: Any) -> None:
    """Write tensors and plain values as torch does."""
    import torch

    with atomic_write(path) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # what torch turns a file error into, as on a full disk
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def read_state(path: Path) -> Any:
    """Read what `write_state` or torch has written, onto the CPU; nothing in the file is executed.

    A file that is missing raises a FileNotFoundError, and a broken one a ValueError.
    """
    import torch

    try:
        if path.exists() and not path.is_file():
            raise OSError("it is no file")  # a pipe may never begin, and a device never end
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # what a broken or hostile file makes torch raise has no common type
        # torch says of a broken pickle how to load it nevertheless, which would run code in it
        reason = "" if isinstance(error, pickle.UnpicklingError) else f": {one_line(error)}"
        raise ValueError(f"{type(error).__name__}{reason}") from None


def weights_among(stored: Any, like: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """Return the weights of a network, by its names, from a state that may be anyone's, in the types of `like`."""
    import torch

    weights = {}
    for name, own in like.items():
        value = stored.get(name) if isinstance(stored, Mapping) else None
        if not isinstance(value, torch.Tensor) or value.is_nested or value.shape != own.shape:
            raise ValueError(f"there is no {name} of shape {tuple(own.shape)}")
        if value.is_meta or value.is_quantized or value.is_complex() or value.layout != torch.strided:
            raise ValueError(f"{name} has no values in a plain layout")
        weights[name] = value.to(own.dtype)
        if not weights[name].isfinite().all():
            raise ValueError(f"{name} is not finite")
    return weights


def write_text(path: Path, text: str) -> None:
    """Write a text."""
    with atomic_write(path) as file:
        file.write(text.encode(errors="replace"))


def write_document(path: Path, values: Any) -> None:
    """Write plain values as JSON."""
    write_text(path, json.dumps(values, indent=2) + "\n")


def leaves(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every value that is no container under its dotted key; in lists, numbers are keys. Empty ones are passed over.

    Where values are nested more than `DEEPEST` deep, the text of a ValueError is the key.
    """
    remaining: list[tuple[str, Any, int]] = [("", values, 0)]
    while remaining:
        above, value, depth = remaining.pop()
        if not isinstance(value, (dict, list)):
            yield above, value
            continue
        if depth == DEEPEST:
            raise ValueError(above)
        children = value.items() if isinstance(value, dict) else enumerate(value)
        remaining += [(f"{above}.{name}" if above else str(name), child, depth + 1) for name, child in children]


def remove_unfinished(folder: Path) -> None:
    """Remove the half-written files of killed processes from a folder that no other process writes to."""
    for path in folder.rglob(f"*.[0-9]*{UNFINISHED}"):
        path.unlink(missing_ok=True)
