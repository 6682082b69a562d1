"""What a run asks of a machine, counted on the meta device, where tensors have shapes but no memory."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from ganexp.config.schema import Config, ConfigError
from ganexp.training.execution import Machine

CPU_FLOPS = 8e10
"""Operations per second and CPU thread in convolutions, as measured in docs/benchmarks.md; a rough guide for other CPUs."""


@dataclass(frozen=True)
class Demands:
    """Per sample: bytes that a forward pass keeps for the backward pass, and floating-point operations of a forward pass."""

    d_bytes: float
    g_bytes: float
    d_flop: float
    g_flop: float

    def least_bytes(self, batch_size: int, accumulate: int = 1, *, whole: int = 0) -> float:
        """Return a lower bound on the bytes that any strategy keeps at its peak.

        That is D's passes of real and generated samples, or G's pass; with accumulation, one micro-batch in one network, plus
        `whole` samples in D.
        """
        if accumulate == 1:
            return batch_size * max(2 * self.d_bytes, self.g_bytes)
        return -(-batch_size // accumulate) * max(self.d_bytes, self.g_bytes) + whole * self.d_bytes

    def flop(self, batch_size: int, d_steps: int, g_steps: int, *, g_batch: int | None = None) -> float:
        """Return the operations of an iteration of `detach`, which are among the fewest that a strategy needs."""
        of_d, of_g = d_steps * 6 * self.d_flop, g_steps * (2 * self.d_flop + 3 * self.g_flop)
        return batch_size * of_d + (batch_size if g_batch is None else g_batch) * of_g


def refuse_too_large(
    config: Config,
    machine: Machine,
    processes: int,
    networks: Sequence[nn.Module],
    asked: Demands,
    *,
    differentiates_gradients: bool,
) -> None:
    """Refuse what does not fit into memory: weights, gradients, moments and average, or the activations of one batch.

    Penalties that differentiate gradients keep a whole batch in D, even with accumulation.
    """
    there = machine.memory_bytes
    count = sum(parameter.numel() for network in networks for parameter in network.parameters())
    needed: float = 5 * count * machine.dtype.itemsize  # weights, gradients, two moments and an average
    if needed > there:
        raise ConfigError(
            f"generator and discriminator have {count:,} parameters, whose training takes {needed / 2**30:,.0f} GiB, and there "
            f"are {there / 2**30:,.0f} GiB: lower generator.width or discriminator.width."
        )
    share, share_of_g = (batch // processes for batch in (config.batch_size, config.g_batch or 0))
    least = {
        "batch_size": asked.least_bytes(share, config.accumulate, whole=share if differentiates_gradients else 0),
        "g_batch": -(-share_of_g // config.accumulate) * max(asked.d_bytes, asked.g_bytes),
    }
    key = max(least, key=least.__getitem__)
    needed = least[key] * (machine.autocast or machine.dtype).itemsize / 4
    if needed > 0.8 * there:  # the rest is for weights, data, and everything else that is alive
        size = getattr(config, key)
        fits = max(1, int(size * 0.8 * there / needed))
        raise ConfigError(
            f"{key}={size} takes at least {needed / 2**30:,.1f} GiB for what the networks' backward passes keep, and there are "
            f"{there / 2**30:,.1f} GiB: choose less than {fits}, a higher accumulate, or lower the width of a network."
        )


def counted(network: nn.Module, *x: Tensor) -> tuple[Tensor, float, float]:
    """Return the output of a forward pass, the bytes that it keeps, and the operations that it takes."""
    own = {_storage(parameter) for parameter in network.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        return kept.setdefault(_storage(tensor), tensor)

    with FlopCounterMode(display=False) as counter, saved_tensors_hooks(keep, lambda tensor: tensor):
        output = network(*x)
        kept_bytes = sum(tensor.untyped_storage().nbytes() for storage, tensor in kept.items() if storage not in own)
    return output, kept_bytes, counter.get_total_flops()


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
