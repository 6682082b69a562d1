"""Torch's own optimisers, each behind a constructor that checks its settings."""

from collections.abc import Iterable

import torch
from torch import nn
from torch.optim import SGD, Adam, RMSprop

from ganexp.optimizers.bounds import check_betas, check_eps, check_lr


def adam(
    parameters: Iterable[nn.Parameter],
    *,
    lr: float = 2e-4,
    betas: tuple[float, float] = (0.5, 0.999),
    eps: float = 1e-8,
    fused: bool = True,
) -> Adam:
    """Adam (Kingma & Ba 2015), by one fused kernel unless `fused` is off.

    The fused kernel reads parameters as flat arrays, and so it is not taken where one has gaps in memory, such as a view
    of every second column, nor where there is no memory, on the meta device.
    """
    check_lr(lr)
    check_betas(betas)
    check_eps(eps)
    moved = list(parameters)
    flat = all(torch.empty_like(p, device="meta").stride() == p.stride() and not p.is_meta for p in moved)
    return Adam(moved, lr=lr, betas=betas, eps=eps, fused=fused and flat)


def rmsprop(
    parameters: Iterable[nn.Parameter],
    *,
    lr: float = 5e-5,
    alpha: float = 0.99,
    eps: float = 1e-8,
) -> RMSprop:
    """RMSprop (Hinton 2012), in its multi-tensor form."""
    check_lr(lr)
    if not 0 <= alpha < 1:
        raise ValueError(f"alpha must lie in [0, 1), not {alpha}")
    check_eps(eps)
    return RMSprop(parameters, lr=lr, alpha=alpha, eps=eps, foreach=True)


def sgd(parameters: Iterable[nn.Parameter], *, lr: float = 1e-2, momentum: float = 0.0) -> SGD:
    """Stochastic gradient descent, with momentum in [0, 1) if asked; for momentum below 0 see `NegativeMomentum`."""
    check_lr(lr)
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must lie in [0, 1), not {momentum}; optimizer=negative_momentum takes it below 0")
    return SGD(parameters, lr=lr, momentum=momentum, foreach=True)
