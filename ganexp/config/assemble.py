"""From checked values to the objects of the subject: networks, a GAN, a strategy. On any device, meta included."""

import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from ganexp.augmentations import Augmentation
from ganexp.config.schema import Config
from ganexp.config.targets import arguments, make, target
from ganexp.distributed.processes import Processes
from ganexp.gan import GAN
from ganexp.gan.packing import packed_shape
from ganexp.losses import Loss
from ganexp.penalties import Penalty
from ganexp.prior import Prior
from ganexp.schedules import Schedule
from ganexp.strategies import Strategy
from ganexp.strategies.base import as_strategy
from ganexp.wrappers import Constant, LatentStep, Lookahead, Replay, TopK


def networks_of(config: Config, shape: tuple[int, ...], classes: int) -> tuple[nn.Module, nn.Module]:
    """Make the generator and the discriminator for samples of a shape, in this order; 0 classes are no conditions."""
    conditions = {"classes": classes} if classes else {}
    generator = make(config.generator, "generator", config.latent_dim, shape, **conditions)
    return generator, make(config.discriminator, "discriminator", packed_shape(shape, config.pack), **conditions)


@dataclass(frozen=True)
class Chosen:
    """The parts of a run beside its networks and optimisers, as they were made: with settings, and without a state yet."""

    loss: Loss
    penalty: Penalty
    augment: Augmentation
    schedule: Schedule
    strategy: Strategy


def chosen_by(config: Config, plain_strategy: Strategy) -> Chosen:
    """Make the parts that a configuration chooses, given its strategy without what goes around it.

    Raises:
        ConfigError: A part refuses its settings.
        Misfit: A wrapper does not go around the strategy.
    """
    return Chosen(
        loss=make(config.loss, "loss"),
        penalty=make(config.penalty, "penalty"),
        augment=make(config.augment, "augment"),
        schedule=make(config.schedule, "schedule", config.iterations),
        strategy=strategy_of(config, plain_strategy),
    )


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


def strategy_of(config: Config, plain_strategy: Strategy) -> Strategy:
    """Return a strategy with the wrappers around it that are asked for."""
    strategy: Strategy = make(config.steps, "steps", plain_strategy)
    if isinstance(strategy, Constant):
        strategy = strategy.strategy
    if config.latent_step.alpha:
        strategy = LatentStep(strategy, **config.latent_step.model_dump())
    if config.topk.nu < 1:
        strategy = TopK(strategy, **config.topk.model_dump())
    if config.replay.share:
        strategy = Replay(strategy, **config.replay.model_dump())
    if config.lookahead.every:
        strategy = Lookahead(strategy, **config.lookahead.model_dump())
    return strategy


def plain_strategy_of(config: Config) -> Strategy:
    """Return the strategy, with its settings, and nothing around it."""
    found = target(config.strategy, "strategy")
    if inspect.isclass(found):
        made: Strategy = make(config.strategy, "strategy")
        return made
    return as_strategy(functools.update_wrapper(functools.partial(found, **arguments(config.strategy)), found))
