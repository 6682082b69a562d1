"""What a biased figure would be for infinitely many samples."""

from collections.abc import Sequence

import torch


def at_infinity(n: Sequence[int], figures: Sequence[float]) -> float:
    """Return the value at 1/N = 0 of the least-squares line through figures over 1/N (Chong & Forsyth 2020, equation 3)."""
    inverse = 1 / torch.tensor(n, dtype=torch.float64)
    figure = torch.tensor(figures, dtype=torch.float64)
    centred = inverse - inverse.mean()
    slope = (centred @ figure) / centred.square().sum()
    return float(figure.mean() - slope * inverse.mean())
