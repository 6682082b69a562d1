"""Batch norm over the global batch of several processes."""

import types
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ganexp.distributed.processes import Processes


def synchronise(network: nn.Module, processes: Processes) -> None:
    """Make the batch norms of a network use the mean and variance of the global batch, in place.

    Torch's SyncBatchNorm is for GPUs only and cannot be differentiated twice, which gradient penalties need. Parameters,
    buffers and the behaviour in evaluation mode stay as they are.
    """
    for module in network.modules():
        if isinstance(module, _BatchNorm):
            module.processes = processes  # type: ignore[assignment]  # no tensor, no module
            bound = types.MethodType(_forward, module)  # copied along with its module
            setattr(module, "forward", bound)  # noqa: B010 (a method, to mypy)


def is_synchronised(module: nn.Module) -> bool:
    """Return whether processes communicate in a module's pass."""
    return isinstance(module, _BatchNorm) and hasattr(module, "processes")


def _forward(norm: _BatchNorm, x: Tensor) -> Tensor:
    """Normalise a share `(B/N, C, …)` of a batch; only two vectors of C numbers are reduced over processes."""
    if not norm.training:  # one process may evaluate alone
        return type(norm).forward(norm, x)
    processes = cast(Processes, norm.processes)
    values = x.to(torch.promote_types(x.dtype, torch.float32))
    over, each = [0, *range(2, x.dim())], (1, -1, *[1] * (x.dim() - 2))
    count = processes.count * x.numel() // x.shape[1]
    mean = processes.total(values.sum(over)) / count
    centred = values - mean.view(each)
    variance = processes.total(centred.square().sum(over)) / count
    if norm.running_mean is not None:
        _remember(norm, mean, variance * count / (count - 1))
    normalised = centred * (variance + norm.eps).rsqrt().view(each)
    if norm.affine:
        normalised = normalised * norm.weight.view(each) + norm.bias.view(each)
    return normalised.to(x.dtype)


@torch.no_grad()
def _remember(norm: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked.add_(1)
    share = 1 / norm.num_batches_tracked.double() if norm.momentum is None else norm.momentum
    for kept, now in ((norm.running_mean, mean), (norm.running_var, variance)):
        kept.mul_(1 - share).add_(now * share)
