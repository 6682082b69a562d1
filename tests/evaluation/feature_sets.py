"""Sets of features that are drawn, kept batch by batch, and compared as the paper of FID does."""

import numpy as np
import torch
from scipy.linalg import sqrtm

from ganexp.evaluation.statistics import FeatureBatch


def drawn(n, size=6, *, mean=0.0, std=1.0, seed=0):
    return torch.randn(n, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * std + mean


def kept(statistic, features, *, logits=None, labels=None):
    whole = FeatureBatch(features, features.flatten(1), logits, labels)
    for begin in range(0, len(features), 70):
        statistic.update(whole[begin : begin + 70])
    return statistic


def fid(x, y):
    """Fréchet distance as Heusel et al. write it, by the square root of a matrix."""
    (m, s), (w, c) = ((one.mean(0), np.cov(one, rowvar=False)) for one in (x.numpy(), y.numpy()))
    return ((m - w) ** 2).sum() + np.trace(s) + np.trace(c) - 2 * np.trace(sqrtm(s @ c)).real
