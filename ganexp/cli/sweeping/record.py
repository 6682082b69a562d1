"""The record of a sweep in its folder: the keys that differ between jobs, and what resuming needs."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from ganexp.config.schema import GROUPS, LISTS
from ganexp.documents import write_document
from ganexp.logging.reading import read_document

FILE = "sweep.json"


@dataclass(frozen=True)
class Sweep:
    """The record of a sweep.

    Args:
        overrides: Its command line, without `-m` and options.
        differing: The keys that are swept over.
        jobs: The overrides of every job, in the order of their numbers; empty where a sweeper chooses as it goes.
        metric: The key of the rows by which it is ranked, and which a search optimises, if any.
        options: Where its configurations come from, such as `--config-dir` with its folder.
        direction: Which values of the metric are best: `minimize`, `maximize`, or `auto`, which is what the key declares.
    """

    overrides: tuple[str, ...]
    differing: tuple[str, ...]
    jobs: tuple[tuple[str, ...], ...] = ()
    metric: str | None = None
    options: tuple[str, ...] = ()
    direction: Annotated[str, Field(pattern="^(auto|minimize|maximize)$")] = "auto"

    def save(self, folder: Path) -> None:
        """Write the record."""
        folder.mkdir(parents=True, exist_ok=True)
        write_document(folder / FILE, asdict(self))

    @classmethod
    def is_in(cls, folder: Path) -> bool:
        """Return whether a folder holds a sweep."""
        return os.path.lexists(folder / FILE)

    @classmethod
    def load(cls, folder: Path) -> "Sweep":
        """Read the record; if it is missing or broken, raise a `ValueError`."""
        return TypeAdapter(cls).validate_python(read_document(folder / FILE))

    @classmethod
    def find(cls, folder: Path) -> "Sweep | None":
        """Read the record, if there is one that can be read."""
        try:
            return cls.load(folder)
        except ValueError:
            return None

    def settings(self, overrides: Sequence[str]) -> dict[str, str]:
        """Return a job's values of the keys that are swept over."""
        values = dict(override.lstrip("+").split("=", 1) for override in overrides if "=" in override)
        return {key: values[key] for key in self.differing if key in values}

    def label(self, overrides: Sequence[str]) -> str:
        """Return a readable name made of what differs: options alone, other values with the last part of their key."""
        settings = self.settings(overrides)
        lasts = [key.rpartition(".")[2] for key in settings]
        names = {key: last if lasts.count(last) == 1 else key for key, last in zip(settings, lasts, strict=True)}
        alone = {*GROUPS, "experiment"} - {*LISTS}
        return " ".join(value if key in alone else f"{names[key]}={value}" for key, value in settings.items())
