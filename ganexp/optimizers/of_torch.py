"""Torch's own optimisers, each behind a function whose settings have ranges."""

from collections.abc import Iterable
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Lt
from torch import nn
from torch.optim import SGD, Adam, AdamW, RMSprop

from ganexp.ranges import checked

Decay = Annotated[float, Ge(0), Lt(1)]
Penalty = Annotated[float, Ge(0)]
"""λ of weight decay as an L2 penalty, λ/2 ‖θ‖²: λθ is added to the gradient, which Adam then scales like the rest."""


@checked
def adam(
    parameters: Iterable[nn.Parameter],
    *,
    lr: Annotated[float, Gt(0)] = 2e-4,
    betas: tuple[Decay, Decay] = (0.0, 0.999),
    eps: Annotated[float, Gt(0)] = 1e-8,
    weight_decay: Penalty = 0.0,
    fused: bool = True,
) -> Adam:
    """Adam (Kingma & Ba 2015), by one fused kernel unless `fused` is off.

    The fused kernel reads parameters as flat arrays. So it is not used if a parameter has gaps in memory, such as a view of
    every second column, or has no memory, on the meta device.
    """
    moved = list(parameters)
    first, second = map(float, betas)  # Adam refuses an integer 0 beside a 0.99
    return Adam(moved, lr=lr, betas=(first, second), eps=eps, weight_decay=weight_decay, fused=fused and _are_flat(moved))


@checked
def adamw(
    parameters: Iterable[nn.Parameter],
    *,
    lr: Annotated[float, Gt(0)] = 2e-4,
    betas: tuple[Decay, Decay] = (0.0, 0.999),
    eps: Annotated[float, Gt(0)] = 1e-8,
    weight_decay: Annotated[float, Ge(0)] = 1e-2,
    fused: bool = True,
) -> AdamW:
    """Adam with decoupled weight decay, θ ← (1 − ηλ)θ before its step (Loshchilov & Hutter 2019, algorithm 2).

    Parameters of less than two dimensions do not decay: biases, and the gains of norms. `fused` is as for `adam`.
    """
    moved = list(parameters)
    first, second = map(float, betas)
    groups = [
        {"params": [p for p in moved if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in moved if p.dim() < 2], "weight_decay": 0.0, "decays": False},
    ]
    return AdamW(
        [group for group in groups if group["params"]], lr=lr, betas=(first, second), eps=eps, fused=fused and _are_flat(moved)
    )


@checked
def rmsprop(
    parameters: Iterable[nn.Parameter],
    *,
    lr: Annotated[float, Gt(0)] = 5e-5,
    alpha: Decay = 0.99,
    eps: Annotated[float, Gt(0)] = 1e-8,
    weight_decay: Penalty = 0.0,
) -> RMSprop:
    """RMSprop (Hinton 2012), in its multi-tensor form."""
    return RMSprop(parameters, lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, foreach=True)


@checked
def sgd(
    parameters: Iterable[nn.Parameter],
    *,
    lr: Annotated[float, Gt(0)] = 1e-2,
    momentum: Decay = 0.0,
    weight_decay: Penalty = 0.0,
) -> SGD:
    """Stochastic gradient descent, with momentum; for a momentum below 0 see `NegativeMomentum`."""
    return SGD(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay, foreach=True)


def _are_flat(parameters: list[nn.Parameter]) -> bool:
    """Return whether parameters are flat arrays in memory."""
    return all(torch.empty_like(p, device="meta").stride() == p.stride() and not p.is_meta for p in parameters)
