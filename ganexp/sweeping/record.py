"""What a sweep is, kept in its folder, so that its jobs know what differs and it can be resumed."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

GROUPS = ("dataset", "generator", "discriminator", "loss", "penalty", "strategy", "optimizer", "experiment")
FILE = "sweep.json"


@dataclass(frozen=True)
class Sweep:
    """The record of a sweep.

    Args:
        overrides: Its command line, without `-m`.
        differing: The keys that are swept over.
        jobs: The overrides of every job, in the order of their numbers; empty where a sweeper chooses as it goes.
        metric: What it optimises, if anything.
    """

    overrides: tuple[str, ...]
    differing: tuple[str, ...]
    jobs: tuple[tuple[str, ...], ...] = ()
    metric: str | None = None

    def save(self, folder: Path) -> None:
        """Write the record."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path) -> "Sweep":
        """Read the record.

        Raises:
            OSError, ValueError: There is none, or it is broken.
        """
        values = json.loads((folder / FILE).read_text())
        try:
            jobs = tuple(tuple(job) for job in values["jobs"])
            return cls(tuple(values["overrides"]), tuple(values["differing"]), jobs, values["metric"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{folder / FILE} is no record of a sweep") from error

    def settings(self, overrides: Sequence[str]) -> dict[str, str]:
        """Return what a job has of its own."""
        values = dict(override.lstrip("+").split("=", 1) for override in overrides if "=" in override)
        return {key: values[key] for key in self.differing if key in values}

    def label(self, overrides: Sequence[str]) -> str:
        """Return a readable name made of what differs: options by themselves, other keys with their last part."""
        settings = self.settings(overrides)
        lasts = [key.rpartition(".")[2] for key in settings]
        names = {key: last if lasts.count(last) == 1 else key for key, last in zip(settings, lasts, strict=True)}
        return " ".join(value if key in GROUPS else f"{names[key]}={value}" for key, value in settings.items())
