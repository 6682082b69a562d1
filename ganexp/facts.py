"""What a part is told of the run that it is chosen for, and how it says that it does not fit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar


class Misfit(ValueError):
    """A part does not fit the rest of a run.

    The part raises it in words that do not depend on how it was chosen. The command line writes the remedy as `key=value`.

    Args:
        reason: Why, as a predicate of which the part is the subject: "needs a loss with a boundary, and this one has none".
        remedy: Settings with which it would fit, any one of them: the part's own, or the run's, by name; dots stand for levels.
    """

    def __init__(self, reason: str, **remedy: Any) -> None:
        self.reason = reason
        self.remedy = remedy
        choices = " or ".join(f"{name}={value}" for name, value in remedy.items())
        super().__init__(f"{reason}: choose {choices}" if choices else reason)


class Part:
    """What parts of a run say of their settings, beside the contract of their group."""

    on_device: ClassVar[Mapping[str, Any]] = {}
    """Settings that may also be tensors without dimensions on the device, and of which type: None is that of the networks.

    A setting that moves over a run and is not among them is a number on the host, and no CUDA graph holds the iteration.
    """

    fixed: ClassVar[Mapping[str, str]] = {}
    """Settings that cannot move over a run, each with the reason: a predicate of which the setting is the subject."""


@dataclass(kw_only=True)
class Facts:
    """What a run consists of before it is built: counts, the machine, and the other parts.

    Args:
        dataset: A `ganexp.data.Dataset`.
        shape: Of one sample.
        conditional: Whether the networks are to be conditioned on the labels of the data.
        classes: How many the networks are conditioned on; 0 for none.
        flip: Whether images are mirrored at random.
        batch_size: Real samples per batch, over all processes.
        g_batch: Latents of a batch that only G learns from; 0 is as many.
        pack: Samples that D scores together.
        iterations, d_steps: Of the run.
        processes: How many train together.
        compiled: Whether the networks are compiled, which then cannot be differentiated twice.
        itemsize: Bytes of a number of a sample.
        free_bytes: Of the device's memory.
        loss: A `ganexp.losses.Loss`.
        constant_steps: Whether `d_steps` and `g_steps` are the same in every iteration.
        scores: What D returns: `logit`, `energy`, or empty where that is not known.
        further: What D returns behind each score, by name; None where that is not known.
        batch_norm: Whether D has batch norm.
        against: The part of the data that generated samples are compared with: `train`, or `test`, which is held out.
        styles: Whether G makes its samples of styles.
        warnings: What parts have warned of, one sentence each.
    """

    shape: tuple[int, ...]
    dataset: Any = None
    conditional: bool = False
    classes: int = 0
    flip: bool = False
    batch_size: int = 64
    g_batch: int = 0
    pack: int = 1
    iterations: int = 1
    d_steps: int = 1
    processes: int = 1
    compiled: bool = False
    itemsize: int = 4
    free_bytes: int = 2**62
    loss: Any = None
    constant_steps: bool = True
    scores: str = ""
    further: str | None = None
    batch_norm: bool = False
    against: str = "train"
    styles: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def scored(self) -> int:
        """How many scores a batch has: one for each sample, or pack of samples."""
        return self.batch_size // self.pack

    @property
    def scored_for_g(self) -> int:
        """How many scores a batch has that only G learns from."""
        return (self.g_batch or self.batch_size) // self.pack

    def warn(self, sentence: str) -> None:
        """Report, as a predicate of the part, what is allowed and probably unintended."""
        self.warnings.append(sentence)
