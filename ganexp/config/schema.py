"""The schema of a configuration: every top-level key once, with its type, default and meaning, and what it changes.

The help, the names of runs, what may change when resuming and what sets runs apart in a report all come from here. The keys
of a group's member are the keyword arguments of the class or function that its `_target_` names, checked by
`ganexp.config.targets` against that signature: a new loss, strategy or network needs no line here.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from ganexp.config.sections import (
    EvaluationConfig,
    IntervalOrNever,
    Keys,
    Off,
    SweepConfig,
    WandbConfig,
    key,
)

Node = dict[str, Any]
"""A member of a group: the class or function that its `_target_` names, and settings."""
Nodes = dict[str, Node]
"""Several members of a group by name, in their order."""
Steps = Annotated[int, Field(ge=1, le=10_000)]
Interval = Annotated[int, Field(ge=1, le=10**12)]
ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")]


class ConfigError(ValueError):
    """A mistake in the configuration, said in one sentence that names the key and the remedy."""


class Config(Keys):
    """The top-level keys, with the groups as plain dictionaries."""

    dataset: Node = key("what is real")
    generator: Node = key("from latents to samples")
    discriminator: Node = key("from samples to scores")
    penalty: Node = key("a further term of D's loss, or a constraint on its weights")
    augment: Node = key(
        "random transformations of everything that D scores",
        {"name": "none", "_target_": "ganexp.augmentations.NoAugmentation"},
    )
    loss: Node = key("what each network minimises")
    strategy: Node = key("which network moves when, on which fakes")
    optimizer: Node = key("of both networks: optimizer.lr; of one: optimizer.d.lr, optimizer.g.lr")
    wrapper: Nodes = key("a list of what goes around the strategy, the outermost first", {})
    schedule: Node = key("how learning rates move over the run", {"name": "constant", "_target_": "ganexp.schedules.Schedule"})

    seed: Annotated[int, Field(ge=0, lt=2**63)] = key("of everything that is random", 0)
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:(0|[1-9][0-9]{0,2}))?)$")] = key(
        "where to train: {choices}; auto is a GPU if there is one",
        "auto",
        choices="auto, cpu, cuda or cuda:N",
        effect="machine",
    )
    precision: Literal["auto", "fp32", "tf32", "bf16", "fp64"] = key(
        "number format: {choices}; auto is tf32 on a GPU that has it, else fp32", "auto"
    )
    deterministic: bool = key("true: the same bits in every run on a GPU too, if slower", False)
    cuda_graph: Literal["auto"] | bool = key(
        "record an iteration on a GPU and replay it: {choices}; auto is wherever that is possible",
        "auto",
        choices="auto, true or false",
        effect="speed",
    )
    compile: bool = key("true: torch.compile the networks; takes a while, meant for GPUs", False)
    channels_last: Literal["auto"] | bool = key(
        "memory layout of convolutions: {choices}; auto is where it should be faster",
        "auto",
        choices="auto, true or false",
    )
    threads: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)] = key(
        "number of threads on a CPU; auto is torch's own choice",
        "auto",
        choices="auto or an integer from 1 to 1024",
        effect="speed",
    )

    batch_size: Annotated[int, Field(ge=1, le=2**20)] = key("real images per batch, and latents", 32)
    accumulate: Annotated[int, Field(ge=1, le=2**20)] = key(
        "micro-batches that a batch is split into, to save memory; the gradients are the same", 1
    )
    iterations: Interval = key("each makes d_steps updates of D and g_steps of G", 2500, effect="records")
    latent_dim: Annotated[int, Field(ge=1, le=2**20)] = key("length of a latent vector", 64)
    conditional: bool = key("true: condition both networks on the class labels of the data", False)
    prior: Literal["normal", "uniform"] = key("distribution of latents: {choices}, on (-1, 1)", "normal")
    pack: Annotated[int, Field(ge=1, le=1024)] = key("samples that D judges together; batch_size is a multiple of it", 1)
    d_steps: Steps = key("updates of D per iteration", 1)
    g_steps: Steps = key("updates of G per iteration", 1)
    redundant_gradients: bool = key("true: also compute the gradients that textbook loops throw away", False)
    clip_gradients: Off | Annotated[float, Field(gt=0)] = key(
        "largest gradient norm of a network; larger ones are rescaled to it; or off",
        "off",
        choices="off or a norm above 0, such as 1",
    )
    ema: Off | Annotated[float, Field(gt=0, lt=1)] = key(
        "decay of the averaged generator that samples come from, or off",
        0.995,
        choices="off or a decay between 0 and 1, such as 0.999",
    )

    log_every: Interval = key("iterations from one row of measurements to the next", 50, effect="records")
    sample_every: IntervalOrNever = key("iterations from one grid of samples to the next; 0 is never", 500, effect="records")
    evaluate_every: IntervalOrNever = key("iterations from one evaluation to the next; 0 is never", 0, effect="records")
    evaluation: EvaluationConfig = key("of samples, against the data", EvaluationConfig(), effect="records")
    checkpoint_every: IntervalOrNever = key("iterations from one checkpoint to the next; 0 is never", 1000, effect="records")
    keep_checkpoints: Annotated[int, Field(ge=1, le=10_000)] = key("how many of the newest stay", 2, effect="records")
    keep_best: str | None = key(
        "a key of the rows, such as eval/fid: checkpoints/best.pt is from when it was lowest, or highest where that is best",
        None,
        effect="records",
    )
    on_divergence: Literal["stop", "warn", "rollback"] = key(
        "when losses, scores or gradients are no longer finite: {choices}", "stop", effect="records"
    )
    resume: str | None = key(
        "a run folder, a checkpoint in one, or auto: the newest unfinished run with these settings", None, effect="records"
    )
    trust: ModuleName | list[ModuleName] | None = key(
        "modules beside ganexp's whose code a resumed run may name: mine, or [mine,other]",
        None,
        choices="the name of a module, or a list of them, as in trust=[mine,other]",
        effect="records",
    )

    data_root: Annotated[str, Field(min_length=1)] = key(
        "where torchvision keeps its sets; GANEXP_DATA sets it too", "~/.cache/ganexp", effect="records"
    )
    feed: Literal["auto", "resident", "streamed"] = key(
        "where the data are kept: {choices}; auto is resident if they take less than a quarter of the free memory",
        "auto",
        effect="speed",
    )
    flip: bool = key("true: mirror each image left to right with probability 1/2", False)
    workers: Literal["auto"] | Annotated[int, Field(ge=0, le=256)] = key(
        "processes that decode images; auto is one per thread of torch, up to 16",
        "auto",
        choices="auto or an integer from 0 to 256",
        effect="speed",
    )

    wandb: WandbConfig = key("Weights & Biases", WandbConfig(), effect="records")
    sweep: SweepConfig = key("of `-m`", SweepConfig(), effect="records")


LISTS = tuple(name for name, field in Config.model_fields.items() if field.annotation == Nodes)
"""The keys that choose several members of a group."""
GROUPS = tuple(name for name, field in Config.model_fields.items() if field.annotation == Node or name in LISTS)
"""The keys that choose from a group."""


def keys_of(model: type[BaseModel] = Config, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every key that is no group, dotted, with its declaration."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Keys):
            yield from keys_of(field.annotation, f"{prefix}{name}.")
        elif name not in GROUPS:
            yield prefix + name, field


def choices_of(field: FieldInfo) -> str:
    """Return what may be chosen for a key, in words; empty if that is not declared."""
    declared = _declared(field, "choices")
    if declared or get_origin(field.annotation) is not Literal:
        return declared
    *most, last = map(str, get_args(field.annotation))
    return f"{', '.join(most)} or {last}"


def meaning_of(field: FieldInfo) -> str:
    """Return what a key means."""
    return str(field.description).replace("{choices}", choices_of(field))


def effect_of(key: str) -> str:
    """Return what a key changes, which may be dotted; an unknown one could change anything."""
    field = Config.model_fields.get(key.partition(".")[0])
    return _declared(field, "effect") if field else "training"


def _declared(field: FieldInfo, what: str) -> str:
    extra = field.json_schema_extra
    assert isinstance(extra, dict)
    return str(extra[what])
