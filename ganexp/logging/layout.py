"""The names of the files in a run folder; no other module spells them."""

from pathlib import Path

SAVED = ("model.safetensors", "generator.json")
"""The weights and the description of a saved generator."""
PICTURES = "samples"
"""The folder of pictures, as rows name it."""


class RunFolder:
    """The paths of a run's files; no file is read or written here."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = path / "metrics.jsonl"  # one row per line, as JSON
        self.summary = path / "summary.json"  # how the run ended
        self.config = path / "config.json"  # the whole resolved configuration
        self.provenance = path / "provenance.json"  # the commit, the versions, the command and the machine
        self.measures = path / "measures.json"  # what loss, augmentation and evaluation measure, key by key
        self.divergence = path / "divergence.json"  # the row and the batch at which the run diverged
        self.wandb_id = path / "wandb_id"  # the id of its W&B run
        self.tensorboard = path / "tensorboard"  # the folder of TensorBoard's event files
        self.trackio_run = path / "trackio_run"  # the name of its Trackio run
        self.pictures = path / PICTURES
        self.checkpoints = path / "checkpoints"
        self.last = self.checkpoints / "last.pt"  # the newest checkpoint
        self.best = self.checkpoints / "best.pt"  # the checkpoint in which the `keep_best` measurement was best
        self.averages = path / "averages"  # what was averaged from checkpoints after training
        self.lock = path / ".lock"  # which the process that trains here holds locked

    @classmethod
    def of_checkpoint(cls, checkpoint: Path) -> "RunFolder":
        """Return the run folder that a checkpoint lies in."""
        return cls(checkpoint.parent.parent)

    @classmethod
    def beside(cls, checkpoint: Path) -> Path:
        """Return the folder for results of a checkpoint: that of its run, or else that of the file."""
        run = cls.of_checkpoint(checkpoint)
        return run.path if checkpoint.parent in (run.checkpoints, run.averages) else checkpoint.parent

    def checkpoint(self, iteration: int) -> Path:
        """Return the path of the checkpoint of an iteration."""
        return self.checkpoints / f"iteration_{iteration:09d}.pt"

    @property
    def numbered(self) -> list[Path]:
        """The numbered checkpoints that exist, by iteration."""
        paths = self.checkpoints.glob("iteration_*.pt")
        return sorted(path for path in paths if path.stem.removeprefix("iteration_").isdecimal())  # not a person's own copies

    @property
    def results(self) -> list[Path]:
        """The paths of all files that training writes, whether or not they exist."""
        return [
            self.rows,
            self.summary,
            self.config,
            self.provenance,
            self.measures,
            self.divergence,
            self.wandb_id,
            self.tensorboard,
            self.trackio_run,
            self.pictures,
            self.checkpoints,
        ]
