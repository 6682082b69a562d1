"""The facts of a run that parts check themselves against, and the errors with which they refuse it."""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar


class UserError(ValueError):
    """An error of the user: the message is one sentence that names the key, option or file, the fault and the remedy.

    It has no full stop, since it may become part of another sentence; the code that prints it adds one.
    """


class Misfit(ValueError):
    """A part does not fit the rest of a run.

    Its wording does not depend on how the part was chosen. The command line writes the remedy as `key=value`, and adds options
    of other groups that provide what is lacking (`ganexp.config.remedies`).

    Args:
        reason: The reason, as a predicate whose subject is the part: "needs a loss with a boundary, and this one has none".
        lack: What the rest of the run has to provide, a key of `ganexp.config.remedies.REMEDIES`, or empty.
        remedy: Settings by name, any one of which makes the part fit: its own, or the run's; dots separate levels.
    """

    def __init__(self, reason: str, lack: str = "", /, **remedy: Any) -> None:
        self.reason = reason
        self.lack = lack
        self.remedy = remedy
        choices = " or ".join(f"{name}={value}" for name, value in remedy.items())
        super().__init__(f"{reason}: choose {choices}" if choices else reason)


@dataclass(kw_only=True)
class Facts:
    """The facts of a run before it is built: counts, the machine, and the other parts.

    Args:
        dataset: A `ganexp.data.Dataset`.
        shape: Shape of one sample.
        bounded: Whether images are in [-1, 1], as pictures are; False for latents.
        conditional: Whether the networks are to be conditioned on the labels of the data.
        classes: How many classes the networks are conditioned on; 0 for none.
        flip: Whether images are mirrored at random.
        batch_size: Real samples per batch, over all processes.
        g_batch: Latents in a batch that only G learns from; 0 means `batch_size`.
        source_shape: Shape of a source that G is given; empty where G is given latents.
        paired: Whether a real sample is the target of its source.
        pack: Samples that D scores together.
        iterations, d_steps: Iterations of the run, and updates of D in each.
        processes: How many train together.
        compiled: Whether the networks are compiled, and so cannot be differentiated twice.
        once: The setting to switch off so that G or D, by name, can be differentiated twice; empty where it already can.
        itemsize: Bytes per number in a sample.
        free_bytes: Free memory of the device, in bytes.
        loss: A `ganexp.losses.Loss`.
        terms: How many terms G's objective has beside the loss.
        terms_of_d, terms_of_output: How many of them look at D, and how many at G's output, and not at what G itself computes.
        constant_steps: Whether `d_steps` and `g_steps` are the same in every iteration.
        scores: What D returns: `logit`, `energy`, or empty where that is not known.
        further: What D returns behind each score, by name; None where that is not known.
        maps: Whether D returns a map of scores for each sample.
        reads_source: Whether D scores samples beside their sources.
        features: Whether D returns the features of its layers.
        own_terms: The names of the terms that G itself computes.
        last_layer: Whether G says which weight its last layer has.
        batch_norm: Whether D has batch norm.
        augmented: Whether an augmentation changes the images that D scores.
        against: The part of the data that generated samples are compared with: `train`, or `test`, which is held out.
        styles: Whether G makes its samples from styles.
        averages_weights: Whether an optimiser averages the weights that it moves.
        two_way: Whether G is two translators, from each of two sets to the other.
        keeps_best: Whether the checkpoint of the best iteration is kept.
        warnings: The parts' warnings, one sentence each.
    """

    shape: tuple[int, ...]
    dataset: Any = None
    bounded: bool = True
    conditional: bool = False
    classes: int = 0
    flip: bool = False
    batch_size: int = 64
    g_batch: int = 0
    source_shape: tuple[int, ...] = ()
    paired: bool = False
    pack: int = 1
    iterations: int = 1
    d_steps: int = 1
    processes: int = 1
    compiled: bool = False
    once: Mapping[str, str] = field(default_factory=dict)
    itemsize: int = 4
    free_bytes: int = 2**62
    loss: Any = None
    terms: int = 0
    terms_of_d: int = 0
    terms_of_output: int = 0
    constant_steps: bool = True
    scores: str = ""
    further: str | None = None
    maps: bool = False
    reads_source: bool = False
    features: bool = False
    own_terms: tuple[str, ...] = ()
    last_layer: bool = False
    batch_norm: bool = False
    augmented: bool = False
    against: str = "train"
    styles: bool = False
    two_way: bool = False
    keeps_best: bool = False
    averages_weights: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def scored(self) -> int:
        """Number of scores of a batch: one for each sample, or pack of samples."""
        return self.batch_size // self.pack

    @property
    def scored_for_g(self) -> int:
        """Number of scores of a batch that only G learns from."""
        return (self.g_batch or self.batch_size) // self.pack

    def refuse_second_derivatives(self, *networks: str, **remedy: Any) -> None:
        """Raise a `Misfit` if the named networks cannot be differentiated twice."""
        if self.compiled:
            raise Misfit("needs second derivatives, which compiled networks do not have", compile=False, **remedy)
        for network in networks:
            if setting := self.once.get(network):
                reason = f"needs second derivatives, which a {network} with {setting}=true does not have"
                raise Misfit(reason, **{f"{network}.{setting}": False}, **remedy)

    def warn(self, sentence: str) -> None:
        """Warn of a setting that is probably unintended, by a predicate whose subject is the part."""
        self.warnings.append(sentence)


class Part:
    """The contract of all parts of a run: whether they fit it, their state, and how their settings may move.

    The base class of each group adds to it. By default a part fits every run and has no state.
    """

    on_device: ClassVar[Mapping[str, Any]] = {}
    """Settings that may also be zero-dimensional tensors on the device, with their dtype; None is that of the networks.

    Other settings that move over a run are numbers on the host, and the iteration cannot be recorded as a CUDA graph.
    """

    fixed: ClassVar[Mapping[str, str]] = {}
    """Settings that cannot move over a run, each with the reason, as a predicate whose subject is the setting."""

    moves_weights = False
    """Whether it moves weights outside the optimisers' steps, which an optimiser that averages them would not see."""

    def check(self, run: Facts) -> None:
        """Raise a `Misfit` if the part does not fit the run, or warn if it changes nothing in it."""
        if self.moves_weights and run.averages_weights:
            raise Misfit("moves weights itself, which an optimiser that averages them does not see", optimizer="adam")

    def turn(self, d_steps: int, g_steps: int) -> Hashable:
        """Return the kind of the next iteration, as far as it depends on counts on the host.

        Strategies and penalties define it. A CUDA graph is recorded for each kind, of which there should be few.
        """
        return None

    def counters(self) -> list[Counter[str]]:
        """Return the counts that `turn` depends on, which are all that a recorded iteration advances on the host."""
        return []

    def state_dict(self) -> dict[str, Any]:
        """Return the state to checkpoint, tensors and plain values; it is empty, or has the same keys at all times."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint's state."""
