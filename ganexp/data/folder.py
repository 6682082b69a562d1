"""Image files in a folder, at any depth, or in a zip archive, which is read in place."""

import io
import itertools
import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, Any

from ganexp.data.dataset import Stamp, stamp

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif")
UNREAD = (".avif", ".heic", ".heif", ".jxl")
"""Extensions of photographs that are not read."""
LARGEST = 2**28
"""The most bytes of an image in an archive, which is read whole; one that claims more is skipped."""
STEP = 2**16
"""Bytes of a file in an archive that are unpacked at a time."""
TOO_LARGE = f"larger than {LARGEST >> 20} MiB"
HIDDEN = "hidden or of the system"
UNREADABLE = "unreadable folder"
REPLACED = "replaced by a later one of its name"
SYSTEM = {"@eadir", "#recycle", "#snapshot", "__macosx", "$recycle.bin", "system volume information", "lost+found", "thumbs.db"}
"""Folders and files that operating systems and storage devices create, in lower case."""


def is_hidden(path: PurePath | str) -> bool:
    """Return whether a file lies in a hidden or system folder, or is such a file, by its path below the folder that is read."""
    return any(part.startswith(".") or part.lower() in SYSTEM for part in PurePath(path).parts)


@dataclass(frozen=True)
class Listing:
    """The files in a folder or archive, by path: every image with its stamp, and every skipped file with its kind."""

    images: dict[Path, Stamp]
    skipped: list[tuple[Path, str]]

    @property
    def lost(self) -> list[tuple[Path, str]]:
        """The skipped files that are images, and the skipped folders that may hold some."""
        named = (*EXTENSIONS, *UNREAD)
        return [
            (path, kind)
            for path, kind in self.skipped
            if kind != HIDDEN and (kind == UNREADABLE or path.suffix.lower() in named)
        ]


def listed(place: "Folder | Archive") -> Listing:
    """List a folder or archive."""
    images, skipped = {}, []
    for path, stamp_or_kind in sorted(place.walk(), key=lambda entry: entry[0]):
        if isinstance(stamp_or_kind, str):
            skipped.append((path, stamp_or_kind))
        else:
            images[path] = stamp_or_kind
    return Listing(images, skipped)


def counted(kinds: Iterable[str]) -> str:
    """Return how many there are of each kind, in words: "3 .txt, 1 encrypted"."""
    return ", ".join(f"{count} {kind}" for kind, count in Counter(kinds).most_common())


def images_at(path: Path) -> "Folder | Archive":
    """Open a folder or zip archive of images; refuse a path that is neither, or holds none."""
    if not path.is_dir() and not path.is_file():
        raise ValueError(f"path should be a folder of images or a zip archive, and {path} is neither")
    place = Folder(path) if path.is_dir() else Archive(path)
    if all(isinstance(stamp_or_kind, str) for _, stamp_or_kind in place.walk()):
        lost = counted(kind for _, kind in listed(place).lost)
        but = f", but {lost}" if lost else ""
        raise ValueError(
            f"path should be a folder of images or a zip archive, and {path} holds none of {', '.join(EXTENSIONS)}{but}"
        )
    return place


class Folder:
    """A folder and all below it that is not hidden; symbolic links are followed, and each real folder is read once."""

    read = None
    """No reader: the decoder opens the path itself."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fingerprint(self) -> list[object]:
        """Return the path of the folder."""
        return [str(self.path.resolve())]

    def open(self, path: Path) -> IO[bytes]:
        """Open a file."""
        return path.open("rb")

    def head(self, path: Path, length: int) -> bytes:
        """Return the first bytes of a file."""
        with self.open(path) as file:
            return file.read(length)

    def walk(self) -> Iterator[tuple[Path, Stamp | str]]:
        """Yield every image with its stamp, and what is skipped with its kind."""
        visited: set[tuple[int, int]] = set()
        unreadable: list[OSError] = []
        starts = [str(self.path)]
        for start in starts:  # links are followed after all else, so that the way without links wins
            for place, folders, names in os.walk(start, onerror=unreadable.append):
                real = os.stat(place)
                if (real.st_dev, real.st_ino) in visited:  # a link back, or a second way to the same folder
                    folders.clear()
                    continue
                visited.add((real.st_dev, real.st_ino))
                for name in sorted(filter(is_hidden, folders)):
                    yield Path(place, name), HIDDEN
                folders[:] = sorted(itertools.filterfalse(is_hidden, folders))
                starts += [link for link in (os.path.join(place, name) for name in folders) if os.path.islink(link)]
                for path in (Path(place, name) for name in names):
                    yield path, HIDDEN if is_hidden(path.name) else _stamp_or_kind(path)
        for error in unreadable:
            yield Path(error.filename), UNREADABLE


class Archive:
    """A zip archive; a file in it is named by the archive's path and its own name, as if the archive were a folder.

    Each process opens it separately, on its first read: processes that share a handle would move each other's position.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened: tuple[int, zipfile.ZipFile] | None = None
        try:
            members = [member for member in self._handle().infolist() if not _slashed(member).endswith("/")]
        except OSError:
            raise
        except Exception as error:  # zipfile's errors for broken archives have no common type
            raise ValueError(f"path should be a folder of images or a zip archive, and {path} is neither") from error
        named = [(path / _slashed(member).lstrip("/"), member) for member in members]
        self._members = dict(named)  # of one name, the last, as when they are unpacked
        self._replaced = Counter(name for name, _ in named) - Counter([*self._members])

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_opened": None}

    def fingerprint(self) -> list[object]:
        """Return the path of the archive, its size and its times."""
        return [str(self.path.resolve()), *stamp(self.path)]

    def walk(self) -> Iterator[tuple[Path, Stamp | str]]:
        """Yield every image with its size and checksum, and what is skipped with its kind."""
        for path, member in self._members.items():
            if is_hidden(path.relative_to(self.path)):
                yield path, HIDDEN
            elif member.flag_bits & 1:
                yield path, "encrypted"
            elif member.file_size > LARGEST:
                yield path, kind_of(path) or TOO_LARGE
            else:
                yield path, kind_of(path) or (member.file_size, member.CRC, 0)
        for path in self._replaced.elements():
            yield path, HIDDEN if is_hidden(path.relative_to(self.path)) else kind_of(path) or REPLACED

    def read(self, path: Path) -> bytes:
        """Return the content of a file."""
        with self.open(path) as file:
            return file.read()

    def open(self, path: Path) -> IO[bytes]:
        """Open a file, which is unpacked only as far as it is read."""
        return io.BufferedReader(_Unpacked(self._handle().open(self._members[path])), STEP)

    def head(self, path: Path, length: int) -> bytes:
        """Return the first bytes of a file, or none if it cannot be unpacked."""
        try:
            with self.open(path) as file:
                return file.read(length)
        except Exception as error:  # zipfile's errors for broken files have no common type
            if isinstance(error, OSError) and error.errno is not None:  # the disk's
                raise
            return b""

    def _handle(self) -> zipfile.ZipFile:
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = (os.getpid(), zipfile.ZipFile(self.path))
        return self._opened[1]


class _Unpacked(io.RawIOBase):
    """A file in an archive that keeps what it has unpacked, in time linear in its size however it is read.

    `ZipExtFile.read()` copies everything at each step, and `seek` back unpacks from the beginning: seconds for 64 MiB of zeros,
    or hours for an image that jumps to and fro.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._content, self._place = file, bytearray(), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            self._unpack(LARGEST)
        self._place = offset + (0, self._place, len(self._content))[whence]
        return self._place

    def readinto(self, buffer: Any) -> int:
        self._unpack(self._place + len(buffer))
        piece = self._content[self._place : self._place + len(buffer)]
        buffer[: len(piece)] = piece
        self._place += len(piece)
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _unpack(self, end: int) -> None:
        while len(self._content) < end and (piece := self._file.read(STEP)):
            self._content += piece


def _stamp_or_kind(path: Path) -> Stamp | str:
    kind = kind_of(path)
    if kind:
        return kind
    if os.path.isfile(path):  # no error, as of Path.is_file, for a link to a name that is too long
        return stamp(path)
    return "broken link" if path.is_symlink() else f"{path.suffix.lower()} that is no file"


def kind_of(path: Path) -> str | None:
    """Return the kind of a file that is not an image, by its extension; None for an image."""
    extension = path.suffix.lower()
    return None if extension in EXTENSIONS else extension or "without extension"


def _slashed(member: zipfile.ZipInfo) -> str:
    """Return a member's name with slashes between folders, where old tools for Windows have written backslashes."""
    return member.filename.replace("\\", "/") if member.create_system == 0 else member.filename
