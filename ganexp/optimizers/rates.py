"""Learning rates that a schedule moves: in a tensor on the device, where the optimiser can read it there."""

from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adam, Optimizer, RMSprop

Rate = float | Tensor
Tensors = list[Tensor] | tuple[Tensor, ...]


def keep_rate_on_device(optimizer: Optimizer) -> bool:
    """Put learning rates into tensors beside the parameters, and return whether the optimiser reads them there.

    Fused kernels and our own optimisers do; Adam and RMSprop also do if they are `capturable`, on a GPU. Rates of other
    optimisers stay numbers. Kernels for GPUs take float32 only.
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
    """Return whether steps may change numbers on the host, which the replay of a recorded step would not do.

    Torch's optimisers that can be `capturable` do not, nor does SGD, nor an optimiser that declares `reads_rate_on_device`.
    """
    if type(optimizer) is SGD or getattr(optimizer, "reads_rate_on_device", False):
        return False
    return not all("capturable" in group for group in optimizer.param_groups)


def _reads_tensors(optimizer: Optimizer, group: dict[str, Any]) -> bool:
    on_gpu = all(parameter.is_cuda for parameter in group["params"])
    capturable = isinstance(optimizer, (Adam, RMSprop)) and on_gpu
    return bool(group.get("fused")) or capturable or getattr(optimizer, "reads_rate_on_device", False)
