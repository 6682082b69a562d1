"""Files on a disk or in object storage: whatever fsspec has a protocol for."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

BRACES = re.compile(r"\{([^{}]*)\}")
VERSIONS = ("ETag", "etag", "version_id", "generation", "mtime", "last_modified", "LastModified", "created")
"""The names under which file systems report what changes with a file's content."""
AT_ONCE = 8
"""How many files are read at a time, since object storage is slow to answer each request."""


class Storage:
    """A place that fsspec reads, by its URL; each process opens it for itself, as connections do not survive a fork.

    Args:
        url: Of one file or more, such as `s3://bucket/train-*.tar`; a path is a URL too.

    Raises:
        ValueError: The URL's protocol is unknown, or the package for it is missing.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: tuple[int, AbstractFileSystem] | None = None
        try:
            import fsspec
        except ImportError:
            raise ValueError(
                'its files are read by the package fsspec, which is missing: pip install "ganexp[shards]"'
            ) from None
        try:
            self._opened = os.getpid(), fsspec.core.url_to_fs(url)[0]
        except Exception as error:  # each file system has its own errors
            raise ValueError(f"path={url} cannot be opened by fsspec ({str(error).rstrip('.')})") from error

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_opened": None}

    @property
    def files(self) -> "AbstractFileSystem":
        """The file system of fsspec, opened by this process."""
        if self._opened is None or self._opened[0] != os.getpid():
            import fsspec

            self._opened = os.getpid(), fsspec.core.url_to_fs(self._url)[0]
        return self._opened[1]

    def matching(self, url: str) -> list[str]:
        """Return the paths that a URL of this place stands for, sorted; without `*`, `?` or `[`, it stands for itself."""
        import fsspec

        path = str(fsspec.core.url_to_fs(url)[1])
        return sorted(map(str, self.files.glob(path))) if any(one in path for one in "*?[") else [path]

    def is_like(self, other: "Storage") -> bool:
        """Return whether a path means the same file in the other place: fsspec's paths do not always name the host."""
        from fsspec.implementations.cached import CachingFileSystem

        ours, theirs = (one.fs if isinstance(one, CachingFileSystem) else one for one in (self.files, other.files))
        return type(self.files) is type(other.files) and bool(ours == theirs)

    @property
    def at_once(self) -> int:
        """How many files can be read at a time; fsspec's own copies of them (`filecache::`) support only one thread."""
        from fsspec.implementations.cached import CachingFileSystem

        return 1 if isinstance(self.files, CachingFileSystem) else AT_ONCE

    def stamp(self, path: str) -> list[object]:
        """Return a file's size, and what else shows that it has changed."""
        found = self.files.info(path)
        if found.get("type") == "other":
            raise OSError("it is no file")  # a pipe may never begin, and a device never end
        return [found.get("size"), *(str(found[name]) for name in VERSIONS if name in found)]

    def open(self, path: str) -> IO[bytes]:
        """Open a file."""
        opened: IO[bytes] = self.files.open(path, "rb")
        return opened

    def ranges(self, paths: Sequence[str], starts: Sequence[int], sizes: Sequence[int]) -> list[bytes | Exception]:
        """Return a range of bytes of each file, or an exception where that fails; all at once where the file system can."""
        ends = [start + size for start, size in zip(starts, sizes, strict=True)]
        found: list[Any] = self.files.cat_ranges(list(paths), list(starts), ends, on_error="return")
        return [
            one
            if isinstance(one, Exception) or len(one) == size
            else OSError(f"{size:,} bytes were requested, {len(one):,} received")
            for one, size in zip(found, sizes, strict=True)
        ]


def unfolded(pattern: str) -> Iterator[str]:
    """Yield the paths that a pattern with braces stands for, as in a shell: `{000..127}` and `{train,val}`."""
    found = BRACES.search(pattern)
    if not found:
        yield pattern
        return
    inside, both = found[1], re.fullmatch(r"(\d+)\.\.(\d+)", found[1])
    chosen: Iterable[str]
    if both:
        first, last = both[1], both[2]
        width = max(len(first), len(last)) if re.match(r"0\d", first) or re.match(r"0\d", last) else 0
        chosen = (f"{number:0{width}d}" for number in range(int(first), int(last) + 1))
    else:
        chosen = inside.split(",")
    for choice in chosen:
        yield from unfolded(pattern[: found.start()] + choice + pattern[found.end() :])
