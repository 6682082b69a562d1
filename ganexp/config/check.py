"""Whether choices fit each other and this machine, before data are read or anything is written."""

import functools
import json
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ganexp.augmentations import Augmentation
from ganexp.config.assemble import networks_of, plain_strategy_of, strategy_of
from ganexp.config.demands import Demands
from ganexp.config.dry_run import META, dry_iteration, refuse_too_large, try_networks, try_parts, try_values
from ganexp.config.evaluation import figures_of, missing_for_evaluation, refuse_evaluation, without_effect
from ganexp.config.labels import classes_of
from ganexp.config.measured import refuse_unknown_metric
from ganexp.config.parsing import parse
from ganexp.config.plain import plain
from ganexp.config.schema import Config, ConfigError
from ganexp.config.several import refuse_inexact_shares, refuse_unshared
from ganexp.config.targets import Trust, check_targets, make, name_of, target
from ganexp.config.wrapping import refuse_wrappers, wrappers_without_effect
from ganexp.losses import Loss
from ganexp.penalties import Penalty
from ganexp.training import Strategy
from ganexp.training.execution import Machine, Unavailable


@dataclass(frozen=True)
class Plan:
    """A configuration that can be run here.

    Args:
        values: It as plain values.
        config: It, parsed.
        machine: Where it will run.
        shape: Of one sample.
        classes: How many the networks are conditioned on; 0 for none.
        warnings: What is allowed but probably unintended.
        demands: What the networks need per sample; None for networks that look at values, which cannot be counted.
        missing: What has to be installed or made first, one sentence each.
    """

    values: dict[str, Any]
    config: Config
    machine: Machine
    shape: tuple[int, ...]
    classes: int
    warnings: list[str] = field(default_factory=list)
    demands: Demands | None = None
    missing: list[str] = field(default_factory=list)


def check(cfg: Any, *, trust: Trust = (), processes: int = 1) -> Plan:
    """Check a configuration without reading data, taking memory or writing anything.

    One iteration of the real strategy runs on torch's meta device, where tensors have shapes but no memory, so that what
    does not fit is refused by the part that knows. What was checked last is not checked again.

    Args:
        cfg: A configuration composed by Hydra, or the same as plain dictionaries.
        trust: Modules beside ganexp's whose code the configuration may run, or None for any.
        processes: How many will train together.

    Raises:
        ConfigError: The configuration has a mistake, two choices do not fit, or it names code that is not trusted.
    """
    values = plain(cfg)
    parse(values)
    return _checked(json.dumps(values), trust if trust is None or isinstance(trust, str) else tuple(trust), processes)


@functools.lru_cache(maxsize=1)
def _checked(values: str, trust: Trust, processes: int) -> Plan:
    config = parse(json.loads(values))
    check_targets(config, trust)
    machine = machine_of(config)
    dataset = make(config.dataset, "dataset")
    shape, classes = shape_of(dataset, config), classes_of(dataset, config)
    refuse_evaluation(config, dataset, shape)
    figures = figures_of(config, dataset, shape)
    refuse_unknown_metric("keep_best", config.keep_best, config.loss, config.augment, figures=figures)
    refuse_unknown_metric("sweep.metric", config.sweep.metric, config.loss, config.augment, figures=figures)
    if config.flip and len(shape) != 3:
        raise ConfigError(f"flip=true mirrors images, and dataset={name_of(config.dataset)} has none: choose flip=false.")
    _check_pack(config)
    refuse_unshared(config, processes)
    loss, penalty, plain_strategy = make(config.loss, "loss"), make(config.penalty, "penalty"), plain_strategy_of(config)
    refuse_wrappers(config, machine, shape, loss, plain_strategy)
    strategy = strategy_of(config)
    augment: Augmentation = make(config.augment, "augment")
    try:
        augment.refuse(shape)
    except ValueError as error:
        raise ConfigError(f"augment={name_of(config.augment)}: {error}; choose augment=none.") from None
    if augment.reads_signs and loss.boundary != 0:
        raise ConfigError(
            f"augment={name_of(config.augment)} moves by the signs of D's scores, which mean nothing with "
            f"loss={name_of(config.loss)}: choose augment=diffaugment, or a loss such as nonsaturating or hinge."
        )
    _check_second_derivatives(config, penalty, plain_strategy)
    _check_schedule(config, loss)
    warnings = [*without_effect(config, figures), *wrappers_without_effect(config)]
    discriminator: nn.Module | None = None
    asked: Demands | None = None
    try:
        with torch.device(META):
            generator, discriminator = networks_of(config, shape, classes)
        _check_scores(config, discriminator, loss, penalty)
        refuse_inexact_shares(config, processes, plain_strategy, {"generator": generator, "discriminator": discriminator})
        try_networks(config, shape, classes, generator, discriminator)
        differentiates = penalty.differentiates_gradients
        share = config.model_copy(update={"batch_size": config.batch_size // processes})
        asked = refuse_too_large(share, machine, generator, discriminator, differentiates_gradients=differentiates)
        few = strategy_of(config.model_copy(update={"steps": Config.model_fields["steps"].default}))  # many steps are alike
        dry_iteration(config, machine, shape, classes, generator, discriminator, few)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        if "meta" not in reason:
            raise ConfigError(f"strategy={name_of(config.strategy)} cannot run one iteration: {reason}.") from error
        # a network looks at values, of which there are none
        warnings.append(f"The networks' shapes are not checked beforehand: {reason}")
        _check_scores(config, discriminator, loss, penalty)
    try_parts(config, shape, classes)
    refuse = getattr(strategy, "refuse", None)
    if refuse:
        try_values(config, refuse, loss, shape, classes)
    if machine.precision == "bf16" and machine.emulates_bf16:
        warnings.append("precision=bf16 is emulated by this device, and slow.")
    modules = discriminator.modules() if discriminator else ()
    if penalty.needs_logits and any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in modules):
        warnings.append(f"penalty={name_of(config.penalty)} is meant for a discriminator without batch norm.")
    missing = missing_for_evaluation(config, dataset, shape)
    return Plan(json.loads(values), config, machine, shape, classes, warnings, asked, missing)


def machine_of(config: Config) -> Machine:
    """Return the device and precision that a configuration asks for.

    Raises:
        ConfigError: This machine does not have it.
    """
    try:
        machine = Machine.resolved(config.device, config.precision)
    except Unavailable as error:
        raise ConfigError(f"{error}.") from None
    if config.cuda_graph is True and machine.device.type == "cpu":
        raise ConfigError(f"cuda_graph=true needs a GPU, but device={config.device} is not one: choose cuda_graph=auto.")
    return machine


def _check_pack(config: Config) -> None:
    if config.pack == 1:
        return
    if config.batch_size % config.pack:
        raise ConfigError(
            f"batch_size={config.batch_size} does not fill packs of pack={config.pack}: choose a multiple of {config.pack}, "
            f"such as batch_size={config.pack * -(-config.batch_size // config.pack)}."
        )
    if config.conditional:
        raise ConfigError(f"conditional=true has labels for samples, and D judges packs of pack={config.pack}: choose pack=1.")
    if hasattr(target(config.discriminator, "discriminator"), "reconstruct"):
        raise ConfigError(
            f"discriminator={name_of(config.discriminator)} reconstructs samples, and pack={config.pack} is for discriminators "
            "that judge packs: choose pack=1, or a discriminator on logits such as dcgan."
        )


def _check_second_derivatives(config: Config, penalty: Penalty, strategy: Strategy) -> None:
    if not config.compile:
        return
    for key, one in {"penalty": penalty, "strategy": strategy}.items():
        if getattr(one, "differentiates_gradients", False):
            name = name_of(getattr(config, key))
            raise ConfigError(f"{key}={name} differentiates gradients, which compiled networks cannot: choose compile=false.")


def _check_schedule(config: Config, loss: Loss) -> None:
    needs = make(config.schedule, "schedule", config.iterations).needs
    if needs is None or needs in loss.measures:
        return
    remedy = (
        f"schedule.metric as one of {', '.join(sorted(loss.measures))}" if loss.measures else "loss=began, or another schedule"
    )
    raise ConfigError(
        f"schedule={name_of(config.schedule)} observes {needs}, which loss={name_of(config.loss)} does not measure: "
        f"choose {remedy}."
    )


def _check_scores(config: Config, discriminator: nn.Module | None, loss: Loss, penalty: Penalty) -> None:
    output = getattr(discriminator, "output", getattr(target(config.discriminator, "discriminator"), "output", "logit"))
    returned = f"discriminator={name_of(config.discriminator)} returns {output} scores"
    if output not in loss.accepts:
        kinds = " or ".join(sorted(loss.accepts))
        if isinstance(base := config.loss.get("base"), dict):
            raise ConfigError(
                f"loss={name_of(config.loss)} around {name_of(base)} needs a discriminator that returns {kinds} scores, and "
                f"{returned}: choose another loss@loss.base, such as loss@loss.base=nonsaturating."
            )
        raise ConfigError(
            f"loss={name_of(config.loss)} needs a discriminator that returns {kinds} scores, and {returned}: {_remedy(output)}."
        )
    if penalty.needs_logits and output != "logit":
        raise ConfigError(
            f"penalty={name_of(config.penalty)} needs a discriminator that returns logit scores, and {returned}: "
            "choose penalty=none."
        )
    # of a network that cannot be made here, that is not known
    further = getattr(discriminator, "further", loss.reads if discriminator is None else "")
    if further != loss.reads:
        raise ConfigError(_unread(config, further, loss.reads))


def _unread(config: Config, further: str, reads: str) -> str:
    """Say how a discriminator and a loss come to agree on what stands behind the scores."""
    discriminator, loss = f"discriminator={name_of(config.discriminator)}", f"loss={name_of(config.loss)}"
    if reads == "class_loss":
        remedy = "choose conditional=true and discriminator.conditioning=classifier, with dcgan, resnet or mlp"
    elif reads == "code":
        remedy = "choose discriminator=began discriminator.returns_code=true, or loss.pulling_away=0"
    elif further == "class_loss":
        remedy = "choose loss=acgan, or discriminator.conditioning=projection"
    else:
        remedy = "choose a loss that does, such as loss=ebgan loss.pulling_away=0.1, or discriminator.returns_code=false"
    if reads:
        return f"{loss} reads the {reads} of each sample, and {discriminator} returns {further or 'scores alone'}: {remedy}."
    return f"{discriminator} returns the {further} of each sample, which {loss} does not read: {remedy}."


def _remedy(output: str) -> str:
    if output == "logit":
        return "choose discriminator=began, or a loss on logits such as loss=nonsaturating"
    return "choose discriminator=dcgan or discriminator=mlp, or loss=began"


def shape_of(dataset: Any, config: Config) -> tuple[int, ...]:
    """Return the shape of one sample.

    Raises:
        ConfigError: The data set does not tell.
    """
    shape = getattr(dataset, "shape", None)
    if not isinstance(shape, (tuple, list)) or not all(type(size) is int and size > 0 for size in shape):
        raise ConfigError(
            f"dataset._target_={config.dataset['_target_']} must have a shape, such as (3, 32, 32), and not {shape}."
        )
    return tuple(shape)
