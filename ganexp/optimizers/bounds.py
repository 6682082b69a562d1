"""Checks that constructors share; each raises a ValueError whose sentence begins with the argument's name."""

from collections.abc import Sequence


def check_lr(lr: float) -> None:
    """Refuse a learning rate that is not positive and finite."""
    if not 0 < lr < float("inf"):
        raise ValueError(f"lr must be positive and finite, not {lr}")


def check_betas(betas: Sequence[float]) -> None:
    """Refuse decay rates of moving averages outside [0, 1)."""
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"betas must lie in [0, 1), not {list(betas)}")


def check_eps(eps: float) -> None:
    """Refuse a denominator's guard that is not positive and finite."""
    if not 0 < eps < float("inf"):
        raise ValueError(f"eps must be positive and finite, not {eps}")
