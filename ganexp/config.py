"""The schema of a configuration: which keys there are, of what type and in what range.

Top-level keys are declared here. The keys of a group's member are the keyword arguments of the class or function that
its `_target_` names, checked against the annotations in that signature: a new loss, strategy or network needs no line
here. Ranges of those arguments are checked by their own constructors.
"""

import difflib
import inspect
import json
import pkgutil
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

Node = dict[str, Any]
Steps = Annotated[int, Field(ge=1, le=10_000)]
FROM_THE_RUN = {"dataset": 0, "generator": 2, "discriminator": 1, "loss": 0, "penalty": 0, "strategy": 2}
"""How many leading arguments of a target are not configured but given by the run, by group."""

ELSEWHERE = {
    "lr": "optimizer.lr",
    "learning_rate": "optimizer.lr",
    "lr_g": "optimizer.g.lr",
    "lr_d": "optimizer.d.lr",
    "g_lr": "optimizer.g.lr",
    "d_lr": "optimizer.d.lr",
    "betas": "optimizer.betas",
    "beta1": "optimizer.betas=[0.5,0.999]",
    "b1": "optimizer.betas=[0.5,0.999]",
    "beta2": "optimizer.betas=[0.5,0.999]",
    "b2": "optimizer.betas=[0.5,0.999]",
    "momentum": "optimizer.momentum, with optimizer=sgd,",
    "opt": "optimizer",
    "epochs": "iterations",
    "n_epochs": "iterations",
    "num_epochs": "iterations",
    "max_epochs": "iterations",
    "steps": "iterations",
    "max_steps": "iterations",
    "niter": "iterations",
    "n_iter": "iterations",
    "num_iterations": "iterations",
    "bs": "batch_size",
    "batch": "batch_size",
    "batchsize": "batch_size",
    "n_critic": "d_steps",
    "critic_iters": "d_steps",
    "k": "d_steps",
    "nz": "latent_dim",
    "z_dim": "latent_dim",
    "zdim": "latent_dim",
    "latent_size": "latent_dim",
    "ngf": "generator.width",
    "ndf": "discriminator.width",
    "width": "generator.width and discriminator.width",
    "spectral_norm": "discriminator.spectral_norm",
    "image_size": "dataset.image_size",
    "img_size": "dataset.image_size",
    "resolution": "dataset.image_size",
    "data": "dataset",
    "data_dir": "data_root",
    "dataroot": "data_root",
    "root": "data_root",
    "path": "dataset.path, with dataset=image_folder,",
    "gpu": "device=cuda:0",
    "gpus": "device=cuda:0",
    "cuda": "device=cuda",
    "num_workers": "workers",
    "n_workers": "workers",
    "fp16": "precision=bf16",
    "amp": "precision=bf16",
    "bf16": "precision=bf16",
    "dtype": "precision",
    "model": "generator and discriminator",
    "gan": "loss",
    "name": "wandb.name",
    "project": "wandb.project",
    "tags": "wandb.tags",
    "outdir": "hydra.run.dir",
    "output_dir": "hydra.run.dir",
    "random_seed": "seed",
    "ema_decay": "ema",
    "gp_weight": "penalty.weight, with penalty=gradient_penalty,",
    "lambda_gp": "penalty.weight, with penalty=gradient_penalty,",
    "clip_value": "penalty.bound, with penalty=weight_clipping,",
}
"""What other projects call a key: by their name, the words that say what it is here."""

Interval = Annotated[int, Field(ge=1, le=10**12)]


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
    sample_every: Interval = 500
    checkpoint_every: Interval = 1000
    keep_checkpoints: Annotated[int, Field(ge=1, le=10_000)] = 2
    keep_best: str | None = None
    on_divergence: Literal["stop", "warn", "rollback"] = "stop"
    resume: str | None = None
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
        config = Config.model_validate_json(json.dumps(values))
    except ValidationError as error:
        raise ConfigError(_sentence(error, values)) from None
    for group, leading in FROM_THE_RUN.items():
        _check_node(group, getattr(config, group), leading, steps=group == "strategy")
    _check_optimizer(config.optimizer)
    return config


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


def target(node: Node, key: str) -> Callable[..., Any]:
    """Return the class or function that a node names."""
    name = node.get("_target_")
    if not isinstance(name, str):
        raise ConfigError(f"{key}._target_ must name a class or a function, such as ganexp.losses.Hinge.")
    try:
        found = pkgutil.resolve_name(":".join(name.rsplit(".", 1)))  # the colon: a function before a module of its name
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{key}._target_={name} cannot be imported: {error}.") from None
    if not callable(found):
        raise ConfigError(f"{key}._target_={name} must name a class or a function.")
    return found


def arguments(node: Node) -> dict[str, Any]:
    """Return a node's keyword arguments."""
    return {name: value for name, value in node.items() if name not in ("name", "_target_")}


def make(node: Node, key: str, *positional: Any, **runtime: Any) -> Any:
    """Build what a node describes, with arguments that only the run knows.

    Raises:
        ConfigError: The constructor refuses an argument with a ValueError.
    """
    try:
        return target(node, key)(*positional, **arguments(node), **runtime)
    except ConfigError:
        raise
    except ValueError as error:
        sentence = str(error)
        joint = "." if sentence.split(" ")[0] in node else ": "
        raise ConfigError(f"{key}{joint}{sentence}.") from error


def _check_optimizer(node: Node) -> None:
    for side in ("g", "d"):
        if not isinstance(node.get(side), dict):
            raise ConfigError(f"optimizer.{side} must be a group of settings, as in conf/optimizer/adam.yaml.")
        _check_node(f"optimizer.{side}", node[side], leading=1)
    shared = {"name", "g", "d"} | set(arguments(node["g"])) | set(arguments(node["d"]))
    for name in node:
        if name not in shared:
            raise ConfigError(unknown_key(f"optimizer.{name}", shared))


def _check_node(key: str, node: Node, leading: int, steps: bool = False) -> None:
    function = target(node, key)
    try:
        hints = get_type_hints(function.__init__ if inspect.isclass(function) else function)
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError, NameError) as error:
        raise ConfigError(f"{key}._target_={node['_target_']} has no signature to check against: {error}.") from None
    if steps and inspect.isclass(function):
        leading = 0  # a strategy with settings is an object, which is given the GAN when it is called
    named = [p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    known = {p.name: p.default for p in named[leading:] if not (steps and p.name in ("d_steps", "g_steps"))}
    if not re.fullmatch(r"[\w.-]+", str(node.get("name", "x")), re.ASCII):
        raise ConfigError(f"{key}.name should be letters, digits and . _ - only, not {node['name']}.")
    for name, value in arguments(node).items():
        if name not in known:
            raise ConfigError(unknown_key(f"{key}.{name}", known, preset=True))
        if name in hints and value != "???":
            _check_type(f"{key}.{name}", value, hints[name])
    for name, default in known.items():
        if node.get(name, default) in ("???", inspect.Parameter.empty):
            raise ConfigError(f"{key}.{name} must be given, for example {key}.{name}=….")


def _check_type(key: str, value: Any, hint: Any) -> None:
    try:
        TypeAdapter(hint).validate_json(json.dumps(value), strict=True)
    except PydanticSchemaGenerationError:
        return  # an annotation from outside that says nothing about plain values
    except ValidationError as error:
        raise ConfigError(_told(key, error.errors()[0]["msg"], value)) from None


def _sentence(error: ValidationError, values: dict[str, Any]) -> str:
    first = error.errors()[0]
    kinds = ("float", "int", "bool", "literal", "constrained")  # the members of a union, which are no keys
    path = [str(part) for part in first["loc"] if not str(part).startswith(kinds)]
    key = ".".join(path)
    if first["type"] == "extra_forbidden":
        below: dict[str, type[BaseModel]] = {"wandb": WandbConfig, "lookahead": LookaheadConfig, "sweep": SweepConfig}
        known = below[path[0]].model_fields if len(path) > 1 else Config.model_fields
        return unknown_key(key, known)
    if first["type"] == "missing":
        return f"{key} is missing; it must be given."
    value: Any = values
    for part in path:
        value = value[part] if isinstance(value, dict) else value[int(part)]
    if key == "ema":
        return f"ema should be off or a decay between 0 and 1, such as 0.999, not {value}."
    if key in ("cuda_graph", "channels_last"):
        return f"{key} should be auto, true or false, not {_shown(value)}."
    if key in ("threads", "workers"):
        return f"{key} should be auto or an integer from {1 if key == 'threads' else 0}, not {_shown(value)}."
    if key == "wandb.project":
        return f"wandb.project should be 1 to 128 characters without / \\ # ? % and :, not {value}."
    if key == "device":
        return f"device should be auto, cpu, cuda or cuda:N, not {value}."
    return _told(key, first["msg"], value)


def _told(key: str, message: str, value: Any) -> str:
    said = message[0].lower() + message[1:]
    for subject in ("input ", "string "):
        said = said.removeprefix(subject)
    return f"{key} {said}, not {_shown(value)}."


def _shown(value: Any) -> Any:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else value
