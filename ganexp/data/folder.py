"""Images in a folder, at any depth."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ganexp.data.dataset import Stamp, stamp

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif")
LARGEST = 2**28
"""The most bytes of an image in an archive, which is read whole; one that claims more is skipped."""
TOO_LARGE = f"larger than {LARGEST >> 20} MiB"


class Folder:
    """A folder and everything below it; symbolic links are followed, and each real folder is read once."""

    read = None
    """Outside an archive, the path is enough."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fingerprint(self) -> list[object]:
        """Return where the folder is."""
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
        seen: set[tuple[int, int]] = set()
        unreadable: list[OSError] = []
        starts = [str(self.path)]
        for start in starts:  # links are followed after all else, so that the way without links wins
            for place, folders, names in os.walk(start, onerror=unreadable.append):
                real = os.stat(place)
                if (real.st_dev, real.st_ino) in seen:  # a link back, or a second way to the same folder
                    folders.clear()
                    continue
                seen.add((real.st_dev, real.st_ino))
                folders.sort()
                starts += [link for link in (os.path.join(place, name) for name in folders) if os.path.islink(link)]
                for path in (Path(place, name) for name in names):
                    yield path, _stamp_or_kind(path)
        for error in unreadable:
            yield Path(error.filename), "unreadable folder"


def _stamp_or_kind(path: Path) -> Stamp | str:
    kind = kind_of(path)
    if kind:
        return kind
    if path.is_file():
        return stamp(path)
    return "broken link" if path.is_symlink() else f"{path.suffix.lower()} that is no file"


def kind_of(path: Path) -> str | None:
    """Return the kind of a file that is not an image, by its extension; None for an image."""
    if "__MACOSX" in path.parts:  # where macOS, as it packs an archive, puts a file for each file, named like it
        return "of __MACOSX"
    extension = path.suffix.lower()
    return None if extension in EXTENSIONS else extension or "without extension"
