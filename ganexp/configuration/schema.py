"""The schema of a configuration: which keys there are, of what type and in what range.

Top-level keys are declared here. The keys of a group's member are the keyword arguments of the class or function that
its `_target_` names, checked by `ganexp.configuration.targets` against the annotations in that signature: a new loss, strategy or
network needs no line here. Ranges of those arguments are checked by their own constructors.
"""

import difflib
import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from ganexp.configuration.elsewhere import ELSEWHERE

Node = dict[str, Any]
Steps = Annotated[int, Field(ge=1, le=10_000)]
Interval = Annotated[int, Field(ge=1, le=10**12)]
IntervalOrNever = Annotated[int, Field(ge=0, le=10**12)]
LONGEST_SHOWN = 200
"""How many characters of a wrong value a sentence quotes."""
ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")]


class ConfigError(ValueError):
    """A mistake in the configuration, said in one sentence that names the key and the remedy."""


class WandbConfig(BaseModel):
    """The keys below `wandb`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    mode: Literal["auto", "online", "offline", "disabled"] = "auto"
    entity: str | None = None
    project: Annotated[str, Field(pattern=r"^[^/\\#?%:]{1,128}$")] | None = None
    group: str | None = None
    name: str | None = None
    notes: str | None = None
    tags: list[Annotated[str, Field(min_length=1, max_length=64)]] = []
    directory: str | None = None


class SweepConfig(BaseModel):
    """The keys below `sweep`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    metric: str | None = None
    resume: str | None = None


class LookaheadConfig(BaseModel):
    """The keys below `lookahead`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    every: Annotated[int, Field(ge=0, le=10**12)] = 0
    alpha: Annotated[float, Field(gt=0, le=1)] = 0.5


class Config(BaseModel):
    """The top-level keys, with the groups as plain dictionaries."""

    model_config = ConfigDict(extra="forbid", strict=True)

    dataset: Node
    generator: Node
    discriminator: Node
    loss: Node
    penalty: Node
    strategy: Node
    optimizer: Node

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:(0|[1-9][0-9]{0,2}))?)$")] = "auto"
    precision: Literal["auto", "fp32", "tf32", "bf16", "fp64"] = "auto"
    deterministic: bool = False
    cuda_graph: Literal["auto"] | bool = "auto"
    compile: bool = False
    channels_last: Literal["auto"] | bool = "auto"
    threads: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)] = "auto"
    batch_size: Annotated[int, Field(ge=1, le=2**20)] = 64
    iterations: Interval = 2000
    latent_dim: Annotated[int, Field(ge=1, le=2**20)] = 64
    prior: Literal["normal", "uniform"] = "normal"
    d_steps: Steps = 1
    g_steps: Steps = 1
    redundant_gradients: bool = False
    ema: Literal["off", False] | Annotated[float, Field(gt=0, lt=1)] = "off"
    lookahead: LookaheadConfig = LookaheadConfig()
    log_every: Interval = 50
    sample_every: IntervalOrNever = 500
    checkpoint_every: IntervalOrNever = 1000
    keep_checkpoints: Annotated[int, Field(ge=1, le=10_000)] = 2
    keep_best: str | None = None
    on_divergence: Literal["stop", "warn", "rollback"] = "stop"
    resume: str | None = None
    trust: ModuleName | list[ModuleName] | None = None
    data_root: Annotated[str, Field(min_length=1)] = "~/.cache/ganexp"
    feed: Literal["auto", "resident", "streamed"] = "auto"
    flip: bool = False
    workers: Literal["auto"] | Annotated[int, Field(ge=0, le=256)] = "auto"
    sweep: SweepConfig = SweepConfig()
    wandb: WandbConfig = WandbConfig()


def parse(values: dict[str, Any]) -> Config:
    """Check plain values against the schema.

    Raises:
        ConfigError: A key is unknown or missing, or its value is of a wrong type or out of range.
    """
    try:
        text = json.dumps(values)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"The configuration should hold plain values only: {str(error)[:LONGEST_SHOWN]}.") from None
    try:
        return Config.model_validate_json(text)
    except ValidationError as error:
        raise ConfigError(_sentence(error, values)) from None


def unknown_key(key: str, known: Iterable[str], *, preset: bool = False) -> str:
    """Say that a key is unknown, which one may have been meant, and how to be rid of one that a preset has set."""
    meant = ELSEWHERE.get(key)
    if meant:
        return f"{key} is no key of the configuration; it is {meant} here."
    known = sorted(set(known) - {"name", "_target_"})
    close = difflib.get_close_matches(key.split(".")[-1], known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}." if known else "there are no keys here."
    remedy = f" If an experiment has set it, add ~{key}." if preset and not close else ""
    return f"{key} is no key of the configuration; {hint}{remedy}"


def check_type(key: str, value: Any, hint: Any) -> None:
    """Check a plain value against an annotation.

    Raises:
        ConfigError: It is of another type.
    """
    try:
        TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
    except PydanticSchemaGenerationError:
        return  # an annotation from outside that says nothing about plain values
    except ValidationError as error:
        raise ConfigError(_told(key, error.errors()[0]["msg"], value)) from None


def _sentence(error: ValidationError, values: dict[str, Any]) -> str:
    first = error.errors()[0]
    path, value = _place(error, values)
    key = ".".join(path)
    if first["type"] == "extra_forbidden":
        below: dict[str, type[BaseModel]] = {"wandb": WandbConfig, "lookahead": LookaheadConfig, "sweep": SweepConfig}
        known = below[path[0]].model_fields if len(path) > 1 else Config.model_fields
        return unknown_key(key, known)
    if first["type"] == "missing":
        return f"{key} is missing; it must be given."
    if key == "ema":
        return f"ema should be off or a decay between 0 and 1, such as 0.999, not {_shown(value)}."
    if path[:1] == ["trust"]:
        return f"trust should be the name of a module, or a list of them, as in trust=[mine,other], not {_shown(value)}."
    if key in ("cuda_graph", "channels_last"):
        return f"{key} should be auto, true or false, not {_shown(value)}."
    if key in ("threads", "workers"):
        return f"{key} should be auto or an integer from {1 if key == 'threads' else 0}, not {_shown(value)}."
    if key == "wandb.project":
        return f"wandb.project should be 1 to 128 characters without / \\ # ? % and :, not {_shown(value)}."
    if key == "device":
        return f"device should be auto, cpu, cuda or cuda:N, not {_shown(value)}."
    return _told(key, first["msg"], value)


def _place(error: ValidationError, values: dict[str, Any]) -> tuple[list[str], Any]:
    """Return the keys that lead to a mistake, and what is there; pydantic also names the members of unions in between."""
    path: list[str] = []
    value: Any = values
    first = error.errors()[0]
    for part in first["loc"]:
        inside = part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int)
        if inside or first["type"] == "missing":
            path.append(str(part))
            value = value[part] if inside else None
    return path, value


def _told(key: str, message: str, value: Any) -> str:
    said = message[0].lower() + message[1:]
    for subject in ("input ", "string "):
        said = said.removeprefix(subject)
    return f"{key} {said}, not {_shown(value)}."


def _shown(value: Any) -> str:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
