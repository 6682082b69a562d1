"""Images in a zip archive, read in place."""

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ganexp.data.dataset import Stamp, stamp
from ganexp.data.folder import LARGEST, TOO_LARGE, kind_of

STEP = 2**16
"""Bytes that are unpacked at a time."""


class Archive:
    """A zip archive; a file in it is named by the archive's path and its own name, as if the archive were a folder.

    Each process opens it separately, on its first read: processes that share a handle would move each other's position.

    Raises:
        ValueError: The file is not a zip archive.
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
        self._members = {path / _slashed(member).lstrip("/"): member for member in members}

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_opened": None}

    def fingerprint(self) -> list[object]:
        """Return where the archive lies, its size and its times."""
        return [str(self.path.resolve()), *stamp(self.path)]

    def walk(self) -> Iterator[tuple[Path, Stamp | str]]:
        """Yield every image with its size and checksum, and what is skipped with its kind."""
        for path, member in self._members.items():
            if member.flag_bits & 1:
                yield path, "encrypted"
            elif member.file_size > LARGEST:
                yield path, kind_of(path) or TOO_LARGE
            else:
                yield path, kind_of(path) or (member.file_size, member.CRC, 0)

    def read(self, path: Path) -> bytes:
        """Return the content of a file.

        Raises:
            zipfile.BadZipFile: The file does not match its checksum; other errors mean that it cannot be unpacked.
        """
        with self.open(path) as file:
            return file.read()

    def open(self, path: Path) -> IO[bytes]:
        """Open a file, which is unpacked only as far as it is read."""
        file = self._handle().open(self._members[path])
        assert isinstance(file, zipfile.ZipExtFile)
        file.MAX_N = STEP  # else a read unpacks everything, and only then cuts it to the claimed size
        return file

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


def _slashed(member: zipfile.ZipInfo) -> str:
    """Return a member's name with slashes between folders, where old tools for Windows have written backslashes."""
    return member.filename.replace("\\", "/") if member.create_system == 0 else member.filename
