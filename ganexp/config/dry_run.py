"""Dry runs on torch's meta device, whose tensors have no memory: whether the choices fit, and how many operations they need."""

import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ganexp.batch import Batch
from ganexp.config.assemble import Parts, gan_of, networks_of, prior_of
from ganexp.config.choices import Choices
from ganexp.facts import Facts, UserError
from ganexp.gan import GAN
from ganexp.gan.micro_batches import refuse_inexact
from ganexp.gan.packing import packed, packed_shape
from ganexp.gan.passes import NoScores
from ganexp.printable import one_line
from ganexp.sources import PreviewSamples
from ganexp.strategies import Strategy
from ganexp.streams import undisturbed
from ganexp.training.checkpoint import refuse_unlike
from ganexp.training.execution import Machine

META = torch.device("meta")
TRIED = 2
"""Samples, or packs of them, that are passed through the networks: batch norm wants more than one."""
CPU_FLOPS = 8e10
"""Operations per second and CPU thread in convolutions, as measured in docs/benchmarks.md; a rough guide for other CPUs."""


@dataclass(frozen=True)
class Demands:
    """Floating-point operations of a forward pass, per sample."""

    d_flop: float
    g_flop: float

    def flop(self, batch_size: int, d_steps: int, g_steps: int, *, g_batch: int | None = None) -> float:
        """Return the operations of an iteration of `detach`, which are among the fewest that a strategy needs."""
        of_d, of_g = d_steps * 6 * self.d_flop, g_steps * (2 * self.d_flop + 3 * self.g_flop)
        return batch_size * of_d + (batch_size if g_batch is None else g_batch) * of_g


def try_networks(choices: Choices, facts: Facts, generator: nn.Module, discriminator: nn.Module) -> Demands:
    """Pass two samples, or packs, through both networks, and return the operations that a sample takes.

    A network that looks at values raises a `RuntimeError`.
    """
    config, shape = choices.config, facts.shape
    tried = TRIED * config.pack
    conditions = _labels(tried, facts.classes)
    inputs = torch.zeros(tried, *(facts.source_shape or (config.latent_dim,)), device=META)
    of_generator = True
    try:
        fake, of_fake = counted(generator, inputs, *conditions)
        of_generator = False
        if fake.shape[1:] != shape:
            raise UserError(
                f"{choices['generator'].called} makes samples of shape {tuple(fake.shape[1:])}, and those of "
                f"{choices['dataset'].called} have {shape}: choose data of that shape, for images by dataset.image_size, or "
                "another generator."
            )
        beside = (inputs,) if facts.reads_source else ()
        _, of_score = counted(discriminator, packed(Batch(fake.detach()), config.pack).values, *beside, *conditions)
    except RuntimeError as error:
        reason = one_line(error)
        if "meta" in reason:
            raise
        raise _unfit(choices, facts, reason, of_generator=of_generator) from error
    return Demands(of_score / tried, of_fake / tried)


def _unfit(choices: Choices, facts: Facts, reason: str, *, of_generator: bool) -> UserError:
    """Return the sentence for a network that cannot run on what it is given."""
    dataset, of_g, of_d = (choices[key].called for key in ("dataset", "generator", "discriminator"))
    cannot = f"{of_d} cannot run on samples of shape {facts.shape}, as those of {dataset}"
    remedy = "choose another discriminator or other data"
    if of_generator and facts.source_shape:
        cannot = f"{of_g} cannot run on sources of shape {facts.source_shape}, as those of {dataset}"
        remedy = "choose another generator or other data"
    elif of_generator:
        cannot = f"{of_g} cannot run on latents of latent_dim={choices.config.latent_dim}"
        remedy = "choose another latent_dim or another generator"
    return UserError(f"{cannot} ({reason}): {remedy}.")


def counted(network: nn.Module, *x: Tensor) -> tuple[Tensor, int]:
    """Return the output of a forward pass, and the operations that it takes."""
    with FlopCounterMode(display=False) as counter:
        output = network(*x)
    return output, counter.get_total_flops()


def refuse_too_large(machine: Machine, networks: Sequence[nn.Module]) -> None:
    """Refuse networks whose weights, gradients, moments and average do not fit into memory."""
    available = machine.memory_bytes
    count = sum(parameter.numel() for network in networks for parameter in network.parameters())
    needed = 5 * count * machine.dtype.itemsize  # weights, gradients, two moments and an average
    if needed > available:
        raise UserError(
            f"generator and discriminator have {count:,} parameters, whose training takes {needed / 2**30:,.0f} GiB, and there "
            f"are {available / 2**30:,.0f} GiB: lower generator.width or discriminator.width."
        )


def dry_iteration(
    choices: Choices,
    machine: Machine,
    facts: Facts,
    parts: Parts,
    networks: tuple[nn.Module, nn.Module],
    strategy: Strategy,
) -> None:
    """Run one iteration on the meta device, with at most two steps per network and two micro-batches.

    What looks at values raises a `RuntimeError`.
    """
    config = choices.config.model_copy(update={"accumulate": min(2, choices.config.accumulate)})
    x = torch.empty(config.batch_size, *facts.shape, device=META, dtype=machine.dtype)
    source = x.new_empty(config.batch_size, *facts.source_shape) if facts.source_shape else None
    batch = Batch(x, _labels(config.batch_size, facts.classes), source)
    preview = PreviewSamples(lambda _: batch, config.batch_size, facts.paired) if facts.source_shape else None
    prior = prior_of(config, META, machine.dtype, [1.0] * facts.classes or None, preview)
    gan = gan_of(replace(choices, config=config), copy.deepcopy(parts), *networks, prior=prior)
    reals = gan.follow(itertools.repeat(batch))
    try:
        g_steps = min(2, config.g_steps) if config.g_batch is None else 1  # so that G's last update is the one beside D's
        tried = copy.deepcopy(strategy)
        tried(gan, reals, d_steps=min(2, config.d_steps), g_steps=g_steps)
        gan.finish_iteration()
        measured = gan.measurements()
    except NoScores as error:
        raise UserError(f"{choices['discriminator'].called} does not fit: {error}.") from None
    except ValueError as error:
        typed = map(choices.typed, ("discriminator", "loss", "penalty", "augment", "strategy"))
        chosen = ", ".join(choice for choice in typed if not choice.endswith(("=[]", "=none")))
        raise UserError(f"{chosen} do not fit: {error}.") from None
    _refuse_left(choices, gan, strategy, tried, measured)


def _refuse_left(choices: Choices, gan: GAN, before: Strategy, after: Strategy, measured: Mapping[str, Tensor]) -> None:
    """Refuse what an iteration has left behind: another state, G's update on D's fakes, or measurements without a meaning."""
    try:
        refuse_unlike("state", before.state_dict(), after.state_dict(), gan)
    except ValueError as error:
        raise UserError(
            f"{choices['strategy'].called} could not be resumed, as its {error}: give its state the same keys and types at "
            "all times, and begin what grows as an empty list."
        ) from None
    if gan.meter.last_fake is not None and len(gan.meter.last_fake) != gan.g_batch // gan.pack:
        raise UserError(
            f"g_batch={choices.config.g_batch} is for updates of G on fakes of their own, and {choices['strategy'].called} has "
            "both networks learn from one batch: choose strategy=resample, or g_batch=null."
        )
    declared = (getattr(part, "measures", ()) for part in (gan.loss, gan.augment, gan.generator))
    if undeclared := measured.keys() - {*itertools.chain(*declared)}:
        raise UserError(
            f"{choices['loss'].called} or {choices['generator'].called} measures {', '.join(sorted(undeclared))} without "
            "saying what that is: add it to the measures of its class."
        )


def try_values(choices: Choices, parts: Parts, facts: Facts) -> None:
    """Try the networks on a few samples, for batches that are split or a strategy that tests D; this takes their memory."""
    config, samples = choices.config, packed_shape(facts.shape, facts.pack)
    if config.accumulate > config.batch_size:
        raise UserError(f"accumulate={config.accumulate} is more parts than batch_size={config.batch_size} has samples.")
    labels = _labels(4, facts.classes, torch.device("cpu"))
    with undisturbed(torch.device("cpu")):
        inputs = torch.rand(4, *facts.source_shape) * 2 - 1 if facts.source_shape else torch.randn(4, config.latent_dim)
        beside = (inputs,) if facts.reads_source else ()
        z, x = Batch(inputs, labels), Batch(torch.rand(4, *samples) * 2 - 1, (*beside, *labels))
        networks = networks_of(choices, facts)
        if config.accumulate > 1:
            for key, network, batch in zip(("generator", "discriminator"), networks, (z, x), strict=True):
                try:
                    refuse_inexact(network, batch)
                except ValueError as error:
                    raise UserError(
                        f"accumulate={config.accumulate} is exact only for networks that treat each sample by itself, and "
                        f"{choices[key].called} {error}: choose accumulate=1, or a network without it."
                    ) from None
        if parts.strategy.tries_discriminator:
            try:
                parts.strategy.refuse(networks[1], parts.loss, x)
            except ValueError as error:
                raise UserError(f"strategy: {error}.") from None


def _labels(n: int, classes: int, device: torch.device = META) -> tuple[Tensor, ...]:
    return (torch.zeros(n, dtype=torch.long, device=device),) if classes else ()
