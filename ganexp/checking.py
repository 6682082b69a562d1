"""Every check that choices fit each other and this machine, before data are read or anything is written; and what they mean."""

import copy
import functools
import inspect
import logging
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ganexp.config import Config, ConfigError, parse
from ganexp.demands import demands
from ganexp.logbook.keys import KEYS, may_be_logged
from ganexp.losses import Loss
from ganexp.penalties import NoPenalty
from ganexp.strategies import Lookahead, one_stage
from ganexp.strategies.one_stage import refuse_coupled_images
from ganexp.streams import undisturbed
from ganexp.targets import Trust, arguments, check_targets, make, target
from ganexp.training import execution
from ganexp.training.trainer import Strategy

log = logging.getLogger(__name__)


def check(cfg: Any, *, trust: Trust = ()) -> Config:
    """Check a configuration without reading data, taking memory or writing anything, and return it parsed.

    The networks are built and run on torch's meta device, where tensors have shapes but no memory.

    Args:
        cfg: A configuration composed by Hydra, or the same as plain dictionaries.
        trust: Modules beside ganexp's whose code the configuration may run, or None for any.

    Raises:
        ConfigError: The configuration has a mistake, two choices do not fit, or it names code that is not trusted.
    """
    config = parse(plain(cfg))
    check_targets(config, trust)
    _check_execution(config)
    refuse_unknown_metric("keep_best", config.keep_best)
    shape = shape_of(make(config.dataset, "dataset"), config)
    loss, penalty = make(config.loss, "loss"), make(config.penalty, "penalty")
    strategy = strategy_of(config)
    if config.flip and len(shape) != 3:
        raise ConfigError(f"flip=true mirrors images, and dataset={name_of(config.dataset)} has none: choose flip=false.")
    _check_second_derivatives(config, penalty, strategy)
    for side in ("g", "d"):
        make(config.optimizer[side], f"optimizer.{side}", [nn.Parameter(torch.zeros(1))])
    discriminator = _check_networks(config, shape)
    output = getattr(discriminator, "output", getattr(target(config.discriminator, "discriminator"), "output", "logit"))
    if output not in loss.accepts:
        kinds = " or ".join(sorted(loss.accepts))
        raise ConfigError(
            f"loss={name_of(config.loss)} needs a discriminator that returns {kinds} scores, and "
            f"discriminator={name_of(config.discriminator)} returns {output} scores: {_remedy(output)}."
        )
    if penalty.needs_logits and output != "logit":
        raise ConfigError(
            f"penalty={name_of(config.penalty)} needs a discriminator that returns logit scores, and "
            f"discriminator={name_of(config.discriminator)} returns {output} scores: choose penalty=none."
        )
    if target(config.strategy, "strategy") is one_stage:
        _check_coupling(config, loss, shape)
    if penalty.needs_logits and any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in discriminator.modules()):
        log.warning("penalty=%s is meant for a discriminator without batch norm.", name_of(config.penalty))
    return config


def _check_execution(config: Config) -> None:
    """Check what depends on the machine."""
    device = device_of(config.device)
    precision_of(config)
    if config.cuda_graph is True and device.type == "cpu":
        raise ConfigError(f"cuda_graph=true needs a GPU, and device={config.device} is none: choose cuda_graph=auto.")
    if config.precision == "bf16" and execution.slow_bf16(device):
        log.warning("precision=bf16 is emulated by this device, and slow.")


def _check_second_derivatives(config: Config, penalty: NoPenalty, strategy: Strategy) -> None:
    if not config.compile:
        return
    for key, one in {"penalty": penalty, "strategy": getattr(strategy, "strategy", strategy)}.items():
        if getattr(one, "differentiates_gradients", False):
            name = name_of(getattr(config, key))
            raise ConfigError(f"{key}={name} differentiates gradients, which compiled networks cannot: choose compile=false.")


def _check_networks(config: Config, shape: tuple[int, ...]) -> nn.Module:
    discriminator = nn.Module()
    try:
        with torch.device("meta"), torch.no_grad():
            generator = make(config.generator, "generator", config.latent_dim, shape)
            discriminator = make(config.discriminator, "discriminator", shape)
            fake = generator(torch.zeros(2, config.latent_dim))
            if fake.shape[1:] != shape:
                raise ConfigError(f"generator makes samples of shape {tuple(fake.shape[1:])}, but the dataset's have {shape}.")
            scores = discriminator(fake)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        if "meta tensor" in reason:  # a network that looks at values cannot be tried without them
            log.warning("The networks' shapes are not checked beforehand: %s", reason)
            return discriminator
        raise ConfigError(f"generator or discriminator cannot run on samples of shape {shape}: {reason}.") from error
    _check_memory(config, generator, discriminator)
    _check_batch(config, generator, discriminator)
    if scores.shape != (2,):
        raise ConfigError(f"discriminator must return one score per sample, (2,) for two, not {tuple(scores.shape)}.")
    return discriminator


def _check_coupling(config: Config, loss: Loss, shape: tuple[int, ...]) -> None:
    """Try on a few random images whether one score depends on several; that takes values, and so a network in memory."""
    with undisturbed(torch.device("cpu")):
        discriminator, x = make(config.discriminator, "discriminator", shape), torch.rand(4, *shape) * 2 - 1
        try:
            refuse_coupled_images(discriminator, loss, x)
        except ValueError as error:
            raise ConfigError(f"strategy: {error}.") from None


def _check_memory(config: Config, *networks: nn.Module) -> None:
    """Refuse networks that no memory holds: weights, gradients, two moments and an average, before any is allocated."""
    count = sum(parameter.numel() for network in networks for parameter in network.parameters())
    needed = 5 * count * dtype_of(config).itemsize
    there = _memory_of(device_of(config.device))
    if needed > there:
        raise ConfigError(
            f"generator and discriminator have {count:,} parameters, whose training takes {needed / 2**30:,.0f} GiB, and there "
            f"are {there / 2**30:,.0f} GiB: lower generator.width or discriminator.width."
        )


def _check_batch(config: Config, generator: nn.Module, discriminator: nn.Module) -> None:
    """Refuse batches that no memory holds: what the backward passes keep of them, before any is allocated."""
    asked = demands(generator, discriminator, config.latent_dim)
    bytes_per_value = {"bf16": 2, "fp64": 8}.get(config.precision, 4)
    needed, there = asked.least_bytes(config.batch_size) * bytes_per_value / 4, _memory_of(device_of(config.device))
    if needed > 0.8 * there:  # the rest is for weights, data, and everything else that is alive
        fits = max(1, int(config.batch_size * 0.8 * there / needed))
        raise ConfigError(
            f"batch_size={config.batch_size} takes at least {needed / 2**30:,.1f} GiB for what the networks' backward passes "
            f"keep, and there are {there / 2**30:,.1f} GiB: choose less than {fits}, or lower the width of a network."
        )


def _memory_of(device: torch.device) -> int:
    """Return how many bytes a device has, free or not."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _remedy(output: str) -> str:
    if output == "logit":
        return "choose discriminator=began, or a loss on logits such as loss=nonsaturating"
    return "choose discriminator=dcgan or discriminator=mlp, or loss=began"


def refuse_unknown_metric(key: str, metric: str | None) -> None:
    """Refuse what no row will ever have.

    Raises:
        ConfigError: There is no such key of the rows.
    """
    if metric is not None and not may_be_logged(metric):
        raise ConfigError(f"{key}={metric} is not logged; choose one of {', '.join(sorted(KEYS))}.")


def refuse_used_folder(folder: Path) -> None:
    """Refuse a folder that holds a run, so that no two runs are mixed and nothing is overwritten.

    Raises:
        ConfigError: There are rows in the folder.
    """
    if (folder / "metrics.jsonl").exists():
        raise ConfigError(f"{folder} holds a run already: choose another hydra.run.dir.")


def plain(cfg: Any) -> dict[str, Any]:
    """Return a configuration as plain, resolved dictionaries of its own."""
    if isinstance(cfg, dict):
        return copy.deepcopy(cfg)
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        values = OmegaConf.to_container(cfg, resolve=True)
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{error.full_key or 'The configuration'} cannot be resolved: {reason}.") from error
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def strategy_of(config: Config) -> Strategy:
    """Return the strategy, with its settings, and the wrapper around it if one is asked for."""
    function = target(config.strategy, "strategy")
    strategy: Strategy = (
        make(config.strategy, "strategy")
        if inspect.isclass(function)
        else functools.partial(function, **arguments(config.strategy))
    )
    if config.lookahead.every:
        return Lookahead(strategy, every=config.lookahead.every, alpha=config.lookahead.alpha)
    return strategy


def device_of(name: str) -> torch.device:
    """Return the device that a name stands for.

    Raises:
        ConfigError: There is no such GPU.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device={name} is not there: torch sees {torch.cuda.device_count()} GPUs; choose device=auto.")
    return device


def dtype_of(config: Config) -> torch.dtype:
    """Return the type of parameters and images."""
    return torch.float64 if config.precision == "fp64" else torch.float32


def precision_of(config: Config) -> execution.Precision:
    """Return the precision that is meant, which for `auto` depends on the device.

    Raises:
        ConfigError: The device does not have it.
    """
    try:
        return execution.resolved(config.precision, device_of(config.device))
    except ValueError as error:
        raise ConfigError(f"precision={error}.") from None


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


def name_of(node: dict[str, Any]) -> str:
    """Return what a member of a group is called."""
    return str(node.get("name", node["_target_"]))
