"""From checked values to the objects of the subject: networks, a GAN, a strategy. On any device, meta included."""

import functools
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ganexp.configuration.schema import Config
from ganexp.configuration.targets import arguments, make, target
from ganexp.gan import GAN
from ganexp.networks.packing import packed_shape
from ganexp.prior import Prior
from ganexp.processes import Processes
from ganexp.strategies import Lookahead
from ganexp.training import Strategy


def networks_of(config: Config, shape: tuple[int, ...], classes: int) -> tuple[nn.Module, nn.Module]:
    """Make the generator and the discriminator for samples of a shape, in this order; 0 classes are no conditions."""
    given = {"classes": classes} if classes else {}
    generator = make(config.generator, "generator", config.latent_dim, shape, **given)
    return generator, make(config.discriminator, "discriminator", packed_shape(shape, config.pack), **given)


def gan_of(
    config: Config,
    generator: nn.Module,
    discriminator: nn.Module,
    *,
    device: torch.device,
    dtype: torch.dtype,
    autocast: torch.dtype | None = None,
    frequencies: Sequence[float] | None = None,
    processes: Processes | None = None,
) -> GAN:
    """Make the GAN around networks, which are on the device already."""
    return GAN(
        generator,
        discriminator,
        make(config.loss, "loss").to(device, dtype),
        make(config.optimizer["g"], "optimizer.g", generator.parameters()),
        make(config.optimizer["d"], "optimizer.d", discriminator.parameters()),
        Prior(config.latent_dim, config.prior, seed=config.seed, device=device, dtype=dtype, frequencies=frequencies),
        batch_size=config.batch_size,
        pack=config.pack,
        penalty=make(config.penalty, "penalty"),
        augment=make(config.augment, "augment"),
        redundant_gradients=config.redundant_gradients,
        autocast=autocast,
        accumulate=config.accumulate,
        clip_gradients=config.clip_gradients if isinstance(config.clip_gradients, float) else None,
        processes=processes,
    )


def strategy_of(config: Config) -> Strategy:
    """Return the strategy, with its settings, and the wrapper around it if one is asked for."""
    found = target(config.strategy, "strategy")
    settings = arguments(config.strategy)
    strategy: Any = make(config.strategy, "strategy") if inspect.isclass(found) else found
    if settings and not inspect.isclass(found):
        strategy = functools.update_wrapper(functools.partial(found, **settings), found)
    if config.lookahead.every:
        return Lookahead(strategy, every=config.lookahead.every, alpha=config.lookahead.alpha)
    return strategy
