"""From choices to objects: a dataset, networks, a GAN, a strategy; on any device, the meta device included."""

import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ganexp.augmentations import Augmentation
from ganexp.config.choices import Choice, Choices
from ganexp.config.schema import Config
from ganexp.data import Dataset
from ganexp.distributed.processes import Processes
from ganexp.facts import Facts, UserError
from ganexp.gan import GAN
from ganexp.gan.packing import packed_shape
from ganexp.logging import Logger
from ganexp.losses import Loss
from ganexp.penalties import Penalty, total
from ganexp.prior import Prior
from ganexp.schedules import Schedule
from ganexp.sources import PreviewSamples, Sources
from ganexp.strategies import Strategy
from ganexp.strategies.base import as_strategy
from ganexp.streams import seed_global_streams, stream
from ganexp.terms import Balance, Term


def dataset_of(choice: Choice, seed: int) -> Dataset:
    """Make the dataset; its draws from the global random streams, now and while loading, depend on the seed alone."""
    seed_global_streams(stream(seed, "dataset").initial_seed())
    dataset: Dataset = choice.make()
    return dataset


def networks_of(choices: Choices, facts: Facts) -> tuple[nn.Module, nn.Module]:
    """Make the generator and the discriminator, in this order, for samples of the run's shape; unconditional for 0 classes."""
    conditions = {"classes": facts.classes} if facts.classes else {}
    generator = choices["generator"].make(facts.source_shape or choices.config.latent_dim, facts.shape, **conditions)
    return generator, discriminator_of(choices["discriminator"], facts.shape, facts.pack, facts.source_shape, **conditions)


def discriminator_of(
    choice: Choice, shape: tuple[int, ...], pack: int, source_shape: tuple[int, ...], **conditions: int
) -> nn.Module:
    """Make a discriminator, which is told the shape of a source if it can read sources and there are any."""
    reads = source_shape and "source" in inspect.signature(choice.target).parameters
    given: dict[str, Any] = conditions | ({"source": source_shape} if reads else {})
    discriminator: nn.Module = choice.make(packed_shape(shape, pack), **given)
    return discriminator


@dataclass(frozen=True)
class Parts:
    """The parts of a run other than its networks and optimisers, newly made: with settings, without state.

    Args:
        loss, penalty, augment, schedule: Those of the run.
        terms: Further terms of G's objective, by name.
        balance: How much the loss counts beside them.
        strategy: With all its wrappers.
        by_key: Each chosen part by its key; wrappers, from the outermost to the strategy inside, and penalties one by one.
        loggers: By their keys, not opened yet.
    """

    loss: Loss
    penalty: Penalty
    terms: dict[str, Term]
    balance: Balance
    augment: Augmentation
    schedule: Schedule
    strategy: Strategy
    by_key: dict[str, Any]
    loggers: dict[str, Logger]


def parts_of(choices: Choices) -> Parts:
    """Make the parts that a configuration chooses."""
    config = choices.config
    wrapped = wrapped_strategies(choices)
    strategy, *_ = wrapped.values()
    penalties = {choice.key: choice.make() for choice in choices.of("penalty")}
    terms = {choice.key: choice.make() for choice in choices.of("term")}
    loss, augment, balance = (choices[key].make() for key in ("loss", "augment", "balance"))
    schedule = choices["schedule"].make(config.iterations)
    try:
        penalty = total(dict(zip(config.penalty, penalties.values(), strict=True)))
    except ValueError as error:
        raise UserError(f"{choices.typed('penalty')}: {error}.") from None
    by_key = {**wrapped, "augment": augment, **penalties, **terms, "balance": balance, "loss": loss, "schedule": schedule}
    loggers = {choice.key: choice.make() for choice in choices.of("logger")}
    named = dict(zip(config.term, terms.values(), strict=True))
    return Parts(loss, penalty, named, balance, augment, schedule, strategy, by_key, loggers)


def gan_of(
    choices: Choices,
    parts: Parts,
    generator: nn.Module,
    discriminator: nn.Module,
    *,
    prior: Prior,
    autocast: torch.dtype | None = None,
    processes: Processes | None = None,
) -> GAN:
    """Make the GAN from networks that are on the device already and from parts, of which it takes ownership."""
    clip = choices.config.clip_gradients
    same = {"batch_size", "g_batch", "pack", "redundant_gradients", "accumulate", "term_gradients"}
    return GAN(
        generator,
        discriminator,
        parts.loss.to(prior.device, prior.dtype),
        choices["optimizer.g"].make(generator.parameters()),
        choices["optimizer.d"].make(discriminator.parameters()),
        prior,
        **choices.config.model_dump(include=same),
        penalty=parts.penalty,
        augment=parts.augment,
        autocast=autocast,
        clip_gradients=clip if isinstance(clip, float) else None,
        processes=processes,
        terms=parts.terms,
        balance=parts.balance,
    )


def prior_of(
    config: Config,
    device: torch.device,
    dtype: torch.dtype,
    frequencies: Sequence[float] | None,
    preview: PreviewSamples | None,
) -> Prior:
    """Return where G's inputs come from: latents, or the sources of the data if there are any."""
    where: Any = {"seed": config.seed, "device": device, "dtype": dtype}
    if preview is None:
        return Prior(config.latent_dim, config.prior, frequencies=frequencies, **where)
    return Sources(preview, classes=len(frequencies or ()), **where)


def wrapped_strategies(choices: Choices, *, constant_steps: bool = False) -> dict[str, Strategy]:
    """Return the strategy with its wrappers, from the outermost wrapper to the strategy alone, by their keys.

    With `constant_steps`, wrappers that change the number of updates per iteration are left out.
    """
    wrapped = {"strategy": plain_strategy_of(choices["strategy"])}
    for choice in reversed(choices.of("wrapper")):
        wrapper: Any = choice.target
        if wrapper.constant_steps or not constant_steps:
            wrapped = {choice.key: choice.make(next(iter(wrapped.values()))), **wrapped}
    return wrapped


def plain_strategy_of(choice: Choice) -> Strategy:
    """Return the chosen strategy with its settings, without wrappers."""
    if inspect.isclass(choice.target):
        strategy: Strategy = choice.make()
        return strategy
    return as_strategy(functools.update_wrapper(functools.partial(choice.target, **choice.settings), choice.target))
