"""Adam with settings that move over a run, also in recorded iterations."""

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Adam, AdamW, Optimizer

from ganexp.optimizers.rates import Tensors, average_, average_squares_, moving_groups


class MovingAdam(Adam):
    """Torch's Adam or AdamW with settings that may be tensors on the device; torch's kernels read numbers on the host.

    It has the same state as torch's, and rounds differently from the fused kernel. Bias corrections use the current betas, as
    in torch.
    """

    reads_rate_on_device = True
    moves_on_device: ClassVar = {"betas", "eps", "weight_decay"}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group, moving in moving_groups(self):
            gradients: Tensors = [p.grad for p in moving if p.grad is not None]
            dtype, lr, (beta_1, beta_2) = moving[0].dtype, group["lr"], group["betas"]
            decay, eps = group["weight_decay"], _like(group["eps"], dtype)
            for p in moving:
                if not self.state[p]:
                    step = torch.zeros((), dtype=torch.float32, device=p.device)
                    self.state[p].update(step=step, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
            steps, means, squares = ([self.state[p][name] for p in moving] for name in ("step", "exp_avg", "exp_avg_sq"))
            torch._foreach_add_(steps, 1)
            if group["decoupled_weight_decay"]:
                torch._foreach_mul_(moving, _like(1 - lr * decay, dtype))
            elif isinstance(decay, Tensor) or decay:
                gradients = torch._foreach_add(gradients, torch._foreach_mul(moving, _like(decay, dtype)))
            average_(means, gradients, beta_1)
            average_squares_(squares, gradients, beta_2)
            count = torch.stack(steps).double()
            roots = torch._foreach_sqrt(squares)
            torch._foreach_div_(roots, list((1 - beta_2**count).sqrt().to(dtype)))
            torch._foreach_add_(roots, [eps] * len(roots) if isinstance(eps, Tensor) else eps)
            directions = torch._foreach_div(means, roots)
            torch._foreach_mul_(directions, list((lr / (1 - beta_1**count)).to(dtype)))
            torch._foreach_sub_(moving, directions)


def moves_on_device(optimizer: Optimizer, name: str) -> bool:
    """Return whether an optimiser can read a setting from a tensor: its class declares it, or it is torch's Adam."""
    return name in getattr(_moving(optimizer), "moves_on_device", ())


def keep_setting_on_device(optimizer: Optimizer, name: str, device: torch.device) -> None:
    """Store a setting of an optimiser in tensors on the device; torch's Adam becomes a `MovingAdam`."""
    decoupled, optimizer.__class__ = isinstance(optimizer, AdamW), _moving(optimizer)  # it keeps its groups and its state
    for group in optimizer.param_groups:
        if isinstance(optimizer, MovingAdam):
            group.setdefault("decoupled_weight_decay", decoupled)  # torch 2.6 tells AdamW by its class alone
        group[name] = _in_tensors(group[name], device)


def _moving(optimizer: Optimizer) -> type[Optimizer]:
    """Return the class that an optimiser needs if its settings move."""
    plain = type(optimizer) in (Adam, AdamW) and not any(g["amsgrad"] or g["maximize"] for g in optimizer.param_groups)
    return MovingAdam if plain else type(optimizer)


def _in_tensors(setting: Any, device: torch.device) -> Any:
    if isinstance(setting, tuple):
        return tuple(_in_tensors(number, device) for number in setting)
    return torch.as_tensor(setting, dtype=torch.float64, device=device)


def _like(setting: Any, dtype: torch.dtype) -> Any:
    """Return a number unchanged, and a tensor in this type."""
    return setting.to(dtype) if isinstance(setting, Tensor) else setting
