"""Arithmetic with learning rates and decay rates that are numbers, or tensors on the device if a schedule moves them."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adam, Optimizer, RMSprop

Rate = float | Tensor
Tensors = list[Tensor] | tuple[Tensor, ...]


def keep_rate_on_device(optimizer: Optimizer) -> bool:
    """Store learning rates in tensors on the parameters' device, and return whether the optimiser can read them there.

    Fused kernels and ganexp's optimisers can, and on a GPU also Adam and RMSprop with `capturable`. Rates of other optimisers
    stay numbers. Kernels for GPUs accept float32 only.
    """
    if not all(_reads_tensors(optimizer, group) for group in optimizer.param_groups):
        return False
    keep_on_device(optimizer)
    for group in optimizer.param_groups:
        device = group["params"][0].device
        dtype = torch.float32 if device.type == "cuda" else torch.float64
        group["lr"] = torch.as_tensor(group["lr"], dtype=dtype, device=device)
    return True


def set_rate(group: dict[str, Any], rate: float) -> None:
    """Set the learning rate of a parameter group, in place if it is a tensor."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def add_scaled_(tensors: Tensors, others: Tensors, scale: Rate) -> None:
    """Add `scale` times the others in place, without reading the scale back from the device."""
    if isinstance(scale, Tensor):
        torch._foreach_add_(tensors, torch._foreach_mul(others, scale))
    else:
        torch._foreach_add_(tensors, others, alpha=scale)


def average_(means: Tensors, gradients: Tensors, beta: Rate) -> None:
    """Set m ← βm + (1 − β)g in place."""
    share = 1 - beta
    if isinstance(share, Tensor):
        torch._foreach_lerp_(means, gradients, [share.to(means[0].dtype)] * len(means))
    else:
        torch._foreach_lerp_(means, gradients, share)


def average_squares_(squares: Tensors, gradients: Tensors, beta: Rate) -> None:
    """Set v ← βv + (1 − β)g² in place."""
    if isinstance(beta, Tensor):
        torch._foreach_mul_(squares, beta.to(squares[0].dtype))
        torch._foreach_addcmul_(squares, torch._foreach_mul(gradients, (1 - beta).to(squares[0].dtype)), gradients)
    else:
        torch._foreach_mul_(squares, beta)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta)


def moving_groups(optimizer: Optimizer) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Yield each parameter group with its parameters that have a gradient, if it has any."""
    for group in optimizer.param_groups:
        if moving := [p for p in group["params"] if p.grad is not None]:  # torch's multi-tensor functions take no empty list
            yield group, moving


def states(optimizer: Optimizer, moving: list[Any], zeros: Sequence[str], counts: Sequence[str] = ()) -> list[list[Tensor]]:
    """Return the states of parameters by name: at first zeros like the parameter, and counts of 0 in float64."""
    for p in moving:
        if not optimizer.state[p]:
            counters = {name: torch.zeros((), dtype=torch.float64, device=p.device) for name in counts}
            optimizer.state[p].update({name: torch.zeros_like(p) for name in zeros} | counters)
    return [[optimizer.state[p][name] for p in moving] for name in (*zeros, *counts)]


def keep_on_device(optimizer: Optimizer) -> None:
    """Make one of torch's optimisers count its steps on the GPU (`capturable`)."""
    for group in optimizer.param_groups:
        if "capturable" in group and all(parameter.is_cuda for parameter in group["params"]):
            group["capturable"] = True
            for parameter in group["params"]:
                state: dict[str, Any] = optimizer.state.get(parameter, {})
                if "step" in state:
                    state["step"] = torch.as_tensor(state["step"], dtype=torch.float32).to(parameter.device)


def counts_on_host(optimizer: Optimizer) -> bool:
    """Return whether steps may change numbers on the host, which the replay of a recorded step would not change.

    Torch's optimisers with `capturable`, SGD, and optimisers that declare `reads_rate_on_device` do not.
    """
    if type(optimizer) is SGD or getattr(optimizer, "reads_rate_on_device", False):
        return False
    return not all("capturable" in group for group in optimizer.param_groups)


def _reads_tensors(optimizer: Optimizer, group: dict[str, Any]) -> bool:
    on_gpu = all(parameter.is_cuda for parameter in group["params"])
    capturable = isinstance(optimizer, (Adam, RMSprop)) and on_gpu
    return bool(group.get("fused")) or capturable or getattr(optimizer, "reads_rate_on_device", False)
