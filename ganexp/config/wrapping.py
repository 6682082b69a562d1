"""What goes around a strategy, against the strategy, the loss and the machine."""

import math

from ganexp.config.schema import Config, ConfigError
from ganexp.config.targets import name_of, target
from ganexp.data.placement import free_memory
from ganexp.gan.packing import packed_shape
from ganexp.losses import Loss
from ganexp.training import Strategy
from ganexp.training.execution import Machine
from ganexp.wrappers import Balanced, Constant


def refuse_wrappers(config: Config, machine: Machine, shape: tuple[int, ...], loss: Loss, strategy: Strategy) -> None:
    """Refuse wrappers that do not fit the rest, or would change nothing.

    Args:
        config: The whole.
        machine: Where it will run.
        shape: Of one sample.
        loss: As it was made.
        strategy: Without what is around it.

    Raises:
        ConfigError: There is one.
    """
    fakes = config.batch_size // config.pack
    if config.topk.nu < 1 and max(1, round(config.topk.nu * fakes)) == fakes:
        raise ConfigError(
            f"topk.nu={config.topk.nu} leaves out none of a batch's {fakes} fakes: choose a lower one, or a higher batch_size."
        )
    if config.replay.share:
        _refuse_replay(config, machine, shape, strategy, fakes)
    if config.compile and config.latent_step.alpha and config.latent_step.through:
        raise ConfigError(
            "latent_step.through=true differentiates gradients, which compiled networks cannot: choose compile=false or "
            "latent_step.through=false."
        )
    if issubclass(target(config.steps, "steps"), Balanced) and loss.boundary is None:  # type: ignore[arg-type]  # a class
        raise ConfigError(
            f"steps={name_of(config.steps)} needs a loss with a boundary between real and generated scores, and "
            f"loss={name_of(config.loss)} has none: choose one such as loss=nonsaturating or loss=hinge, or steps=constant."
        )


def wrappers_without_effect(config: Config) -> list[str]:
    """Say, one sentence each, what wrappers would only do in a longer run."""
    said = []
    fakes, topk = config.batch_size // config.pack, config.topk
    lowest = max(topk.gamma ** ((config.iterations - 1) // topk.every), topk.nu)
    if topk.nu < 1 and max(1, round(lowest * fakes)) == fakes:
        said.append(
            f"topk.nu={topk.nu} leaves out no fake within iterations={config.iterations}: lower topk.every or topk.gamma."
        )
    constant = issubclass(target(config.steps, "steps"), Constant)  # type: ignore[arg-type]  # a class
    most = 2 * config.iterations * config.d_steps * fakes  # extragradient draws twice
    if config.replay.share and constant and most <= config.replay.size:
        said.append(
            f"replay.share={config.replay.share} shows D no earlier fakes within iterations={config.iterations}, for which its "
            f"buffer is not full: lower replay.size={config.replay.size}."
        )
    return said


def _refuse_replay(config: Config, machine: Machine, shape: tuple[int, ...], strategy: Strategy, fakes: int) -> None:
    share, size = config.replay.share, config.replay.size
    if getattr(strategy, "learns_through_d_loss", False):
        raise ConfigError(
            f"replay.share={share} shows D earlier fakes, which have no graph, and in strategy={name_of(config.strategy)} G "
            "learns through D's objective on its own: choose replay.share=0, or another strategy such as joint."
        )
    others = round(share * fakes)
    if not others:
        raise ConfigError(f"replay.share={share} is 0 of a batch's {fakes} fakes: choose at least {1 / fakes:.2g}, or 0.")
    if size < others:
        raise ConfigError(
            f"replay.size={size} is less than the {others} fakes of a batch that replay.share={share} takes: choose more."
        )
    each = math.prod(packed_shape(shape, config.pack)) * machine.dtype.itemsize
    there = free_memory(machine.device)
    if size * each > there:
        raise ConfigError(
            f"replay.size={size} takes {size * each / 2**30:,.1f} GiB, and {there / 2**30:,.1f} GiB are free: choose at most "
            f"{there // (2 * each)}, half of what fits."
        )
