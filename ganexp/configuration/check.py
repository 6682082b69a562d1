"""Whether choices fit each other and this machine, before data are read or anything is written."""

import copy
import functools
import itertools
import json
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ganexp.batch import Batch
from ganexp.configuration.assemble import gan_of, networks_of, strategy_of
from ganexp.configuration.demands import Demands, demands
from ganexp.configuration.measured import refuse_unknown_metric
from ganexp.configuration.parsing import parse
from ganexp.configuration.plain import plain
from ganexp.configuration.schema import Config, ConfigError
from ganexp.configuration.targets import Trust, check_targets, make, name_of, target
from ganexp.losses import Loss
from ganexp.penalties import Penalty
from ganexp.streams import undisturbed
from ganexp.training import Strategy
from ganexp.training.execution import Machine, Unavailable

META = torch.device("meta")


@dataclass(frozen=True)
class Plan:
    """A configuration that can be run here.

    Args:
        values: It as plain values.
        config: It, parsed.
        machine: Where it will run.
        shape: Of one sample.
        warnings: What is allowed but probably unintended.
        demands: What the networks need per sample; None for networks that look at values, which cannot be counted.
    """

    values: dict[str, Any]
    config: Config
    machine: Machine
    shape: tuple[int, ...]
    warnings: list[str] = field(default_factory=list)
    demands: Demands | None = None


def check(cfg: Any, *, trust: Trust = ()) -> Plan:
    """Check a configuration without reading data, taking memory or writing anything.

    One iteration of the real strategy runs on torch's meta device, where tensors have shapes but no memory, so that what
    does not fit is refused by the part that knows. What was checked last is not checked again.

    Args:
        cfg: A configuration composed by Hydra, or the same as plain dictionaries.
        trust: Modules beside ganexp's whose code the configuration may run, or None for any.

    Raises:
        ConfigError: The configuration has a mistake, two choices do not fit, or it names code that is not trusted.
    """
    values = plain(cfg)
    parse(values)
    return _checked(json.dumps(values), trust if trust is None or isinstance(trust, str) else tuple(trust))


@functools.lru_cache(maxsize=1)
def _checked(values: str, trust: Trust) -> Plan:
    config = parse(json.loads(values))
    check_targets(config, trust)
    machine = machine_of(config)
    refuse_unknown_metric("keep_best", config.keep_best, config.loss)
    refuse_unknown_metric("sweep.metric", config.sweep.metric, config.loss)
    shape = shape_of(make(config.dataset, "dataset"), config)
    if config.flip and len(shape) != 3:
        raise ConfigError(f"flip=true mirrors images, and dataset={name_of(config.dataset)} has none: choose flip=false.")
    loss, penalty, strategy = make(config.loss, "loss"), make(config.penalty, "penalty"), strategy_of(config)
    _check_second_derivatives(config, penalty, strategy)
    warnings: list[str] = []
    discriminator: nn.Module | None = None
    asked: Demands | None = None
    try:
        with torch.device(META):
            generator, discriminator = networks_of(config, shape)
        _check_scores(config, discriminator, loss, penalty)
        _check_networks(config, shape, generator, discriminator)
        asked = _check_memory(config, machine, generator, discriminator)
        _check_iteration(config, machine, shape, generator, discriminator, strategy)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        if "meta" not in reason:
            raise ConfigError(f"strategy={name_of(config.strategy)} cannot run one iteration: {reason}.") from error
        # a network looks at values, of which there are none
        warnings.append(f"The networks' shapes are not checked beforehand: {reason}")
        _check_scores(config, discriminator, loss, penalty)
    refuse = getattr(strategy, "refuse", None)
    if refuse:
        _try_on_values(config, refuse, loss, shape)
    if machine.precision == "bf16" and machine.emulates_bf16:
        warnings.append("precision=bf16 is emulated by this device, and slow.")
    modules = discriminator.modules() if discriminator else ()
    if penalty.needs_logits and any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in modules):
        warnings.append(f"penalty={name_of(config.penalty)} is meant for a discriminator without batch norm.")
    return Plan(json.loads(values), config, machine, shape, warnings, asked)


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
        raise ConfigError(f"cuda_graph=true needs a GPU, and device={config.device} is none: choose cuda_graph=auto.")
    return machine


def _check_second_derivatives(config: Config, penalty: Penalty, strategy: Strategy) -> None:
    if not config.compile:
        return
    for key, one in {"penalty": penalty, "strategy": strategy}.items():
        if getattr(one, "differentiates_gradients", False):
            name = name_of(getattr(config, key))
            raise ConfigError(f"{key}={name} differentiates gradients, which compiled networks cannot: choose compile=false.")


def _check_scores(config: Config, discriminator: nn.Module | None, loss: Loss, penalty: Penalty) -> None:
    output = getattr(discriminator, "output", getattr(target(config.discriminator, "discriminator"), "output", "logit"))
    returned = f"discriminator={name_of(config.discriminator)} returns {output} scores"
    if output not in loss.accepts:
        kinds = " or ".join(sorted(loss.accepts))
        raise ConfigError(
            f"loss={name_of(config.loss)} needs a discriminator that returns {kinds} scores, and {returned}: {_remedy(output)}."
        )
    if penalty.needs_logits and output != "logit":
        raise ConfigError(
            f"penalty={name_of(config.penalty)} needs a discriminator that returns logit scores, and {returned}: "
            "choose penalty=none."
        )


def _remedy(output: str) -> str:
    if output == "logit":
        return "choose discriminator=began, or a loss on logits such as loss=nonsaturating"
    return "choose discriminator=dcgan or discriminator=mlp, or loss=began"


def _check_networks(config: Config, shape: tuple[int, ...], generator: nn.Module, discriminator: nn.Module) -> None:
    try:
        with torch.no_grad():
            fake = generator(torch.zeros(2, config.latent_dim, device=META))
            if fake.shape[1:] == shape:
                discriminator(fake)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        if "meta" in reason:
            raise
        raise ConfigError(f"generator or discriminator cannot run on samples of shape {shape}: {reason}.") from error
    if fake.shape[1:] != shape:
        raise ConfigError(f"generator makes samples of shape {tuple(fake.shape[1:])}, but the dataset's have {shape}.")


def _check_memory(config: Config, machine: Machine, generator: nn.Module, discriminator: nn.Module) -> Demands:
    """Refuse what does not fit into memory: weights, gradients, moments and average, or the activations of one batch.

    Returns what the networks need per sample.
    """
    there = machine.memory_bytes
    count = sum(parameter.numel() for network in (generator, discriminator) for parameter in network.parameters())
    needed: float = 5 * count * machine.dtype.itemsize  # weights, gradients, two moments and an average
    if needed > there:
        raise ConfigError(
            f"generator and discriminator have {count:,} parameters, whose training takes {needed / 2**30:,.0f} GiB, and there "
            f"are {there / 2**30:,.0f} GiB: lower generator.width or discriminator.width."
        )
    itemsize = (machine.autocast or machine.dtype).itemsize
    asked = demands(generator, discriminator, config.latent_dim)
    needed = asked.least_bytes(config.batch_size) * itemsize / 4
    if needed > 0.8 * there:  # the rest is for weights, data, and everything else that is alive
        fits = max(1, int(config.batch_size * 0.8 * there / needed))
        raise ConfigError(
            f"batch_size={config.batch_size} takes at least {needed / 2**30:,.1f} GiB for what the networks' backward passes "
            f"keep, and there are {there / 2**30:,.1f} GiB: choose less than {fits}, or lower the width of a network."
        )
    return asked


def _check_iteration(
    config: Config,
    machine: Machine,
    shape: tuple[int, ...],
    generator: nn.Module,
    discriminator: nn.Module,
    strategy: Strategy,
) -> None:
    """Run one iteration without values; of many steps of a network, two stand for all."""
    gan = gan_of(config, generator.to(machine.dtype), discriminator.to(machine.dtype), device=META, dtype=machine.dtype)
    reals = itertools.repeat(Batch(torch.empty(config.batch_size, *shape, device=META, dtype=machine.dtype)))
    try:
        copy.deepcopy(strategy)(gan, reals, d_steps=min(2, config.d_steps), g_steps=min(2, config.g_steps))
        gan.finish_iteration()
        undeclared = gan.measurements().keys() - gan.loss.measures.keys()
    except ValueError as error:
        choices = ", ".join(
            f"{key}={name_of(getattr(config, key))}" for key in ("discriminator", "loss", "penalty", "strategy")
        )
        raise ConfigError(f"{choices} do not fit: {error}.") from None
    if undeclared:
        raise ConfigError(
            f"loss={name_of(config.loss)} measures {', '.join(sorted(undeclared))} without saying what that is: add it to "
            f"the measures of {type(gan.loss).__name__}."
        )


def _try_on_values(config: Config, refuse: Any, loss: Loss, shape: tuple[int, ...]) -> None:
    """Let a strategy test the discriminator on a few random images, which takes a network in memory."""
    with undisturbed(torch.device("cpu")):
        discriminator, x = make(config.discriminator, "discriminator", shape), torch.rand(4, *shape) * 2 - 1
        try:
            refuse(discriminator, loss, Batch(x))
        except ValueError as error:
            raise ConfigError(f"strategy: {error}.") from None


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
