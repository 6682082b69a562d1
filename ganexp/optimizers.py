"""Optimisers that the configuration can name, each a checked constructor of one of torch's own."""

from collections.abc import Iterable

from torch import nn
from torch.optim import Adam, RMSprop


def adam(
    parameters: Iterable[nn.Parameter],
    *,
    lr: float = 2e-4,
    betas: tuple[float, float] = (0.5, 0.999),
    eps: float = 1e-8,
    fused: bool = True,
) -> Adam:
    """Adam (Kingma & Ba 2015), by one fused kernel unless `fused` is off."""
    _check_lr(lr)
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"betas must lie in [0, 1), not {list(betas)}")
    if not 0 < eps < float("inf"):
        raise ValueError(f"eps must be positive and finite, not {eps}")
    return Adam(parameters, lr=lr, betas=betas, eps=eps, fused=fused)


def rmsprop(
    parameters: Iterable[nn.Parameter],
    *,
    lr: float = 5e-5,
    alpha: float = 0.99,
    eps: float = 1e-8,
) -> RMSprop:
    """RMSprop (Hinton 2012), in its multi-tensor form."""
    _check_lr(lr)
    if not 0 <= alpha < 1:
        raise ValueError(f"alpha must lie in [0, 1), not {alpha}")
    if not 0 < eps < float("inf"):
        raise ValueError(f"eps must be positive and finite, not {eps}")
    return RMSprop(parameters, lr=lr, alpha=alpha, eps=eps, foreach=True)


def _check_lr(lr: float) -> None:
    if not 0 < lr < float("inf"):
        raise ValueError(f"lr must be positive and finite, not {lr}")
