"""The schema of a configuration: every key once, with its type, its range, and what it changes.

The names of runs, what may change when resuming and what sets runs apart in a report come from here. Defaults and meanings are
the values and the comments of conf/train.yaml. The keys of a group's member are the keyword arguments of the class or function
that its `_target_` names, checked by `ganexp.config.choices` against that signature: a new loss, strategy or network needs no
line here.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator
from pydantic.fields import FieldInfo

Node = dict[str, Any]
"""A member of a group: the class or function that its `_target_` names, and settings."""
Nodes = dict[str, Node]
"""Several members of a group by name, in their order."""
AUTO = "auto"
"""The name that stands for the measures that fit the data; those that it may take are nested below it."""
Steps = Annotated[int, Field(ge=1, le=10_000)]
Interval = Annotated[int, Field(ge=1, le=10**12)]
IntervalOrNever = Annotated[int, Field(ge=0, le=10**12)]
ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")]


def _false(value: bool) -> bool:
    if value:
        raise ValueError("should be off")
    return value


Off = Literal["off"] | Annotated[bool, AfterValidator(_false)]
"""The values that switch off an option that is otherwise a number; `Literal[False]` would also accept 0."""

FEATURES = r"\w+"
"""The pattern of the names of features; anything with other characters is a file, which may contain code."""

FEATURE_NAMES = (
    *("auto", "classifier", "inception", "raw"),
    *("dinov2_vits14", "dinov2_vitb14", "dinov2_vitl14"),
    *("clip_vitb32", "clip_vitb16", "clip_vitl14", "clip_vitl14_336"),
)

Effect = Literal["training", "machine", "speed", "records"]
"""What a key changes: what is trained; where, and so its rounding; how fast; or how long a run lasts and what it writes where.

Keys of the first kind are part of a run's name, those of the first two must not change when it is resumed, and those of all
but the last tell runs apart in a report.
"""


def key(default: Any = ..., *, choices: str = "", effect: Effect = "training") -> Any:
    """Declare a key's choices and effect; its default and its meaning are in conf/train.yaml.

    Args:
        default: For a group, what runs had before the group existed.
        choices: What may be chosen, in words; a Literal of strings speaks for itself.
        effect: What it changes.
    """
    return Field(default, json_schema_extra={"choices": choices, "effect": effect})


def files_among(features: Any) -> list[str]:
    """Return the features that are files, which may contain code."""
    return [
        name for name in map(str, features if isinstance(features, list) else [features]) if not re.fullmatch(FEATURES, name)
    ]


def unknown_feature(features: Any) -> str:
    """Return a sentence for the first name among features that is none; empty if there is no such name."""
    typed = map(str, features if isinstance(features, list) else [features])
    unknown = next((name for name in typed if name not in FEATURE_NAMES and re.fullmatch(FEATURES, name)), "")
    names = ", ".join(FEATURE_NAMES)
    return unknown and f"evaluation.features={unknown} is unknown: choose from {names}, or a file, as in ./{unknown}."


def is_code(decoder: Any) -> bool:
    """Return whether a decoder of latents is a file of `torch.export`, which may contain code, and not a run."""
    return isinstance(decoder, str) and decoder.endswith(".pt2")


def is_remote(decoder: Any) -> bool:
    """Return whether a decoder of latents is a repository on the Hugging Face Hub."""
    return isinstance(decoder, str) and decoder.startswith("hf://")


class Keys(BaseModel):
    """A model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        """Convert a float that is a whole number to an integer: YAML reads 1e4 as a float."""
        return int(value) if isinstance(value, float) and value.is_integer() else value


Named = Annotated[str, Field(min_length=1)]


class SweepConfig(Keys):
    """The keys below `sweep`."""

    metric: Named | None
    direction: Literal["auto", "minimize", "maximize"]
    resume: Named | None


class EvaluationConfig(Keys):
    """The keys below `evaluation`."""

    features: Named | Annotated[list[Named], Field(min_length=1)] = key(choices="a name, a file, or a list of them")
    feature_weights: Named | None
    samples: Annotated[int, Field(ge=2, le=10**7)]
    of: Literal["average", "generator"]
    against: Literal["train", "test"]
    protocol: str | None
    standing: Annotated[int, Field(ge=0, le=10_000)]


class DynamicsConfig(Keys):
    """The keys below `dynamics`."""

    every: IntervalOrNever
    products: Annotated[int, Field(ge=20, le=10**9)]


class Config(Keys):
    """All keys, with the groups as plain dictionaries."""

    dataset: Node
    generator: Node
    discriminator: Node
    penalty: Nodes = key({})
    term: Nodes = key({})
    balance: Node = key({"name": "none", "_target_": "ganexp.terms.Balance"})
    augment: Node = key({"name": "none", "_target_": "ganexp.augmentations.NoAugmentation"})
    loss: Node
    strategy: Node
    optimizer: Node
    logger: Nodes = key({}, effect="records")
    wrapper: Nodes = key({})
    measure: Nodes = key({"auto": {}}, effect="records")
    schedule: Node = key({"name": "constant", "_target_": "ganexp.schedules.Schedule"})
    average: Node = key({"name": "ema", "_target_": "ganexp.training.EMA"})

    seed: Annotated[int, Field(ge=0, lt=2**63)]
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:(0|[1-9][0-9]{0,2}))?)$")] = key(
        choices="auto, cpu, cuda or cuda:N", effect="machine"
    )
    precision: Literal["auto", "fp32", "tf32", "bf16", "fp64"]
    deterministic: bool
    cuda_graph: Literal["auto"] | bool = key(choices="auto, true or false", effect="speed")
    compile: bool
    channels_last: Literal["auto"] | bool = key(choices="auto, true or false")
    threads: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)] = key(
        choices="auto or an integer from 1 to 1024", effect="speed"
    )

    batch_size: Annotated[int, Field(ge=1, le=2**20)]
    g_batch: Annotated[int, Field(ge=1, le=2**20)] | None = key(None, choices="null or an integer from 1 to 1048576")
    accumulate: Annotated[int, Field(ge=1, le=2**20)]
    iterations: Interval = key(effect="records")
    minutes: Annotated[float, Field(gt=0, le=10**6)] | None = key(None, choices="null or minutes above 0", effect="records")
    latent_dim: Annotated[int, Field(ge=1, le=2**20)]
    conditional: bool
    prior: Literal["normal", "uniform"]
    pack: Annotated[int, Field(ge=1, le=1024)]
    d_steps: Steps
    g_steps: Steps
    redundant_gradients: bool
    term_gradients: bool
    init_from: Named | None
    freeze_d: Annotated[int, Field(ge=0, le=10_000)]
    clip_gradients: Off | Annotated[float, Field(gt=0)] = key(choices="off or a norm above 0, such as 1")
    moving: dict[str, Any] | None = key(
        None, choices="a mapping from settings to the numbers that they become, as in moving={penalty.r1.weight:0.1}"
    )

    log_every: Interval = key(effect="records")
    sample_every: IntervalOrNever = key(effect="records")
    evaluate_every: IntervalOrNever = key(effect="records")
    evaluation: EvaluationConfig = key(effect="records")
    dynamics: DynamicsConfig = key(effect="records")
    checkpoint_every: IntervalOrNever = key(effect="records")
    keep_checkpoints: Annotated[int, Field(ge=1, le=10_000)] = key(effect="records")
    keep_best: str | None = key(effect="records")
    on_divergence: Literal["stop", "warn", "rollback"] = key(effect="records")
    resume: Named | None = key(effect="records")
    trust: ModuleName | list[ModuleName] | None = key(
        choices="the name of a module, or a list of them, as in trust=[mine,other]", effect="records"
    )

    data_root: Annotated[str, Field(min_length=1)] = key(effect="records")
    feed: Literal["auto", "resident", "streamed"] = key(effect="speed")
    flip: bool
    workers: Literal["auto"] | Annotated[int, Field(ge=0, le=256)] = key(
        choices="auto or an integer from 0 to 256", effect="speed"
    )

    sweep: SweepConfig = key(effect="records")


LISTS = tuple(name for name, field in Config.model_fields.items() if field.annotation == Nodes)
"""The keys that choose several members of a group."""
GROUPS = tuple(name for name, field in Config.model_fields.items() if field.annotation == Node or name in LISTS)
"""The keys that choose from a group."""


def keys_of(model: type[BaseModel] = Config, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every dotted key that is not a group, with its declaration."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Keys):
            yield from keys_of(field.annotation, f"{prefix}{name}.")
        elif name not in GROUPS:
            yield prefix + name, field


def choices_of(field: FieldInfo) -> str:
    """Return what may be chosen for a key, in words; empty if that is not declared."""
    extra = field.json_schema_extra
    declared = str(extra["choices"]) if isinstance(extra, dict) else ""
    if declared or get_origin(field.annotation) is not Literal:
        return declared
    *most, last = map(str, get_args(field.annotation))
    return f"{', '.join(most)} or {last}"


def effect_of(key: str) -> str:
    """Return the effect of a key, which may be dotted; `training` for an unknown key."""
    field = Config.model_fields.get(key.partition(".")[0])
    extra = field and field.json_schema_extra
    return str(extra["effect"]) if isinstance(extra, dict) else "training"
