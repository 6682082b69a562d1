"""Data sets that torchvision can download: their location, fingerprint, and error messages."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from ganexp.data.dataset import Dataset, Side, stamp
from ganexp.data.digest import of_files
from ganexp.data.folder import Folder
from ganexp.ranges import checked

T = TypeVar("T")


class Downloaded(Dataset):
    """The training part of a torchvision set, as squares.

    If it is below `root` already, where torchvision keeps its sets, it is used without touching the network.
    """

    files: str
    """Where the images lie below `root`, as a pattern."""
    channels: int
    arguments: Mapping[str, Any] = {"train": True}
    """Arguments of torchvision's class, besides `root` and `download`."""

    @checked
    def __init__(self, root: str, *, image_size: Side = 32) -> None:
        self.shape = (self.channels, image_size, image_size)
        self.root = Path(os.path.expanduser(root))

    @property
    def source(self) -> type[Any]:
        """Torchvision's class of the same name."""
        from torchvision import datasets  # slow to import

        return getattr(datasets, type(self).__name__)

    def fingerprint(self) -> list[object]:
        """Return the path of the set, and the name, size and times of every image file; none before a download."""
        return [str(self.root.resolve()), *((path.name, *stamp(path)) for path in self._image_files())]

    def digest(self) -> str:
        files = self._image_files()
        names = [(str(path.relative_to(self.root)), path.stat().st_size) for path in files]
        return of_files(names, lambda place, length: Folder(self.root).head(files[place], length))

    @property
    def is_here(self) -> bool:
        return bool(self._image_files())

    def _read(self, part: Callable[[Any], T]) -> T:
        """Return a part of torchvision's set, which one process at a time downloads: the others then find it there."""
        try:
            try:
                source = self.source(root=self.root, **self.arguments)
            except RuntimeError:  # torchvision's error for a set that is not there
                self.root.mkdir(parents=True, exist_ok=True)
                with FileLock(self.root / f".{self.source.__name__}.lock"):
                    source = self.source(root=self.root, **self.arguments, download=True)
            return part(source)
        except Exception as error:  # torchvision's errors for broken files have no common type
            raise OSError(self._trouble(error)) from error

    def _image_files(self) -> list[Path]:
        return sorted(path for path in self.root.glob(self.files) if path.is_file())

    @property
    def _folder(self) -> Path:
        return (self.root / self.files).parent

    def _trouble(self, error: Exception) -> str:
        """Return the error as one sentence with the remedy."""
        name, folder = self.source.__name__, self._folder
        lines = str(error).split("\n")  # torchvision's own list of what it tried has the cause at its end
        reason = next((line.strip() for line in reversed(lines) if line.strip()), type(error).__name__)
        if self._image_files():
            return (
                f"the files of {name} in {folder} are broken or incomplete ({reason}): "
                "replace them, or delete them to have all downloaded anew"
            )
        return (
            f"{name} is not in {self.root} and cannot be downloaded ({reason}): put its files into {folder}, "
            "name the folder that has them with data_root=… or GANEXP_DATA, or take dataset=digits, which needs none"
        )
