"""Where things lie in a run folder: the only place that spells these names."""

from dataclasses import dataclass
from pathlib import Path

PICTURES = "samples"
"""The folder of pictures, as rows name it."""


@dataclass(frozen=True)
class RunFolder:
    """The paths of what a run leaves; no file is read or written here."""

    path: Path

    @classmethod
    def of_checkpoint(cls, checkpoint: Path) -> "RunFolder":
        """Return the run folder that a checkpoint lies in."""
        return cls(checkpoint.parent.parent)

    @property
    def rows(self) -> Path:
        """One row per line, as JSON."""
        return self.path / "metrics.jsonl"

    @property
    def summary(self) -> Path:
        """How the run ended."""
        return self.path / "summary.json"

    @property
    def config(self) -> Path:
        """The whole resolved configuration."""
        return self.path / "config.json"

    @property
    def provenance(self) -> Path:
        """The commit, the versions, the command and the machine."""
        return self.path / "provenance.json"

    @property
    def measures(self) -> Path:
        """What the loss measures, key by key."""
        return self.path / "measures.json"

    @property
    def divergence(self) -> Path:
        """The row and the batch at which the run diverged."""
        return self.path / "divergence.json"

    @property
    def wandb_id(self) -> Path:
        """The id of its W&B run."""
        return self.path / "wandb_id"

    @property
    def tensorboard(self) -> Path:
        """The folder of TensorBoard's event files."""
        return self.path / "tensorboard"

    @property
    def pictures(self) -> Path:
        """The folder of pictures."""
        return self.path / PICTURES

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self.checkpoints / "last.pt"

    @property
    def best(self) -> Path:
        """The checkpoint in which the `keep_best` measurement was best."""
        return self.checkpoints / "best.pt"

    @property
    def averages(self) -> Path:
        """The folder of averages that were made from checkpoints after training."""
        return self.path / "averages"

    def checkpoint(self, iteration: int) -> Path:
        """Return the path of the checkpoint of an iteration."""
        return self.checkpoints / f"iteration_{iteration:09d}.pt"

    @property
    def numbered(self) -> list[Path]:
        """The numbered checkpoints that exist, by iteration."""
        return sorted(self.checkpoints.glob("iteration_*.pt"))

    @property
    def lock(self) -> Path:
        """The file that the process which trains here holds locked."""
        return self.path / ".lock"

    @property
    def command(self) -> Path:
        """The overrides and options of its command line."""
        return self.path / "command.json"

    @property
    def hydra_overrides(self) -> Path:
        """The overrides as Hydra keeps them."""
        return self.path / ".hydra" / "overrides.yaml"

    @property
    def results(self) -> list[Path]:
        """All that training writes, whether or not it exists."""
        return [
            self.rows,
            self.summary,
            self.config,
            self.provenance,
            self.measures,
            self.divergence,
            self.wandb_id,
            self.tensorboard,
            self.pictures,
            self.checkpoints,
        ]
