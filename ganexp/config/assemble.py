"""From checked values to the objects of the subject: networks, a GAN, a strategy. On any device, meta included."""

import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ganexp.augmentations import Augmentation
from ganexp.config.schema import Config, ConfigError
from ganexp.config.targets import arguments, make, members, target, typed
from ganexp.distributed.processes import Processes
from ganexp.gan import GAN
from ganexp.gan.packing import packed_shape
from ganexp.logging import Logger
from ganexp.losses import Loss
from ganexp.penalties import Penalty, total
from ganexp.prior import Prior
from ganexp.schedules import Schedule
from ganexp.strategies import Strategy
from ganexp.strategies.base import as_strategy


def networks_of(config: Config, shape: tuple[int, ...], classes: int) -> tuple[nn.Module, nn.Module]:
    """Make the generator and the discriminator for samples of a shape, in this order; 0 classes are no conditions."""
    conditions = {"classes": classes} if classes else {}
    generator = make(config.generator, "generator", config.latent_dim, shape, **conditions)
    return generator, make(config.discriminator, "discriminator", packed_shape(shape, config.pack), **conditions)


@dataclass(frozen=True)
class Chosen:
    """The parts of a run beside its networks and optimisers, as they were made: with settings, and without a state yet.

    Args:
        loss, penalty, augment, schedule: Those of the run.
        strategy: With all that goes around it.
        by_key: Each part that was chosen: the wrappers one by one from the outermost to the strategy inside, each penalty.
        loggers: By their keys, not open yet.
    """

    loss: Loss
    penalty: Penalty
    augment: Augmentation
    schedule: Schedule
    strategy: Strategy
    by_key: dict[str, Any]
    loggers: dict[str, Logger]


def chosen_by(config: Config) -> Chosen:
    """Make the parts that a configuration chooses.

    Raises:
        ConfigError: A part refuses its settings, or two penalties exclude each other.
    """
    wrapped = wrapped_strategies(config)
    strategy, *_ = wrapped.values()
    penalties = {key: make(node, key) for key, node in members(config, "penalty").items()}
    loss, augment, schedule = (
        make(config.loss, "loss"),
        make(config.augment, "augment"),
        make(config.schedule, "schedule", config.iterations),
    )
    try:
        penalty = total(dict(zip(config.penalty, penalties.values(), strict=True)))
    except ValueError as error:
        raise ConfigError(f"{typed(config, 'penalty')}: {error}.") from None
    by_key = {**wrapped, "augment": augment, **penalties, "loss": loss, "schedule": schedule}
    loggers = {key: make(node, key) for key, node in members(config, "logger").items()}
    return Chosen(loss, penalty, augment, schedule, strategy, by_key, loggers)


def gan_of(
    config: Config,
    chosen: Chosen,
    generator: nn.Module,
    discriminator: nn.Module,
    *,
    device: torch.device,
    dtype: torch.dtype,
    autocast: torch.dtype | None = None,
    frequencies: Sequence[float] | None = None,
    processes: Processes | None = None,
) -> GAN:
    """Make the GAN around networks, which are on the device already, of parts that it takes for its own."""
    return GAN(
        generator,
        discriminator,
        chosen.loss.to(device, dtype),
        make(config.optimizer["g"], "optimizer.g", generator.parameters()),
        make(config.optimizer["d"], "optimizer.d", discriminator.parameters()),
        Prior(config.latent_dim, config.prior, seed=config.seed, device=device, dtype=dtype, frequencies=frequencies),
        batch_size=config.batch_size,
        pack=config.pack,
        penalty=chosen.penalty,
        augment=chosen.augment,
        redundant_gradients=config.redundant_gradients,
        autocast=autocast,
        accumulate=config.accumulate,
        clip_gradients=config.clip_gradients if isinstance(config.clip_gradients, float) else None,
        processes=processes,
    )


def wrapped_strategies(config: Config, *, constant_steps: bool = False) -> dict[str, Strategy]:
    """Return the strategy with all that goes around it, from the outermost wrapper to the strategy alone, by their keys.

    With `constant_steps`, wrappers that change how many updates there are in an iteration are left out.
    """
    wrapped = {"strategy": plain_strategy_of(config)}
    for key, node in reversed(members(config, "wrapper").items()):
        wrapper: Any = target(node, key)
        if wrapper.constant_steps or not constant_steps:
            wrapped = {key: make(node, key, next(iter(wrapped.values()))), **wrapped}
    return wrapped


def plain_strategy_of(config: Config) -> Strategy:
    """Return the strategy, with its settings, and nothing around it."""
    found = target(config.strategy, "strategy")
    if inspect.isclass(found):
        made: Strategy = make(config.strategy, "strategy")
        return made
    return as_strategy(functools.update_wrapper(functools.partial(found, **arguments(config.strategy)), found))
