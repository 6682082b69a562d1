"""Ranks of strategies over blocks, and which of them differ (Demšar 2006)."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy import stats

from ganexp.compare.ranking import holm

Block = Mapping[str, float]
"""The figure of each strategy with one loss in one setting, the lowest best; infinite where it diverged."""


def mean_ranks(blocks: Sequence[Block]) -> dict[str, float]:
    """Return the mean rank of every strategy, 1 the best; equal figures share theirs."""
    ranks = np.array([stats.rankdata([*block.values()]) for block in blocks])
    return dict(zip(blocks[0], map(float, ranks.mean(0)), strict=True))


def friedman(blocks: Sequence[Block]) -> float:
    """Return the p of Friedman's test that all strategies have the same ranks."""
    if all(len(set(block.values())) == 1 for block in blocks):
        return 1.0
    return float(stats.friedmanchisquare(*zip(*(block.values() for block in blocks), strict=True)).pvalue)


def differing(blocks: Sequence[Block]) -> dict[tuple[str, str], float]:
    """Return for each pair of strategies the p of Wilcoxon's signed-rank test over blocks, corrected by Holm for all pairs.

    Settings have different scales, so what is compared within a block is the logarithm of the ratio of the two figures.
    A ratio of two infinite ones is 1.
    """
    pairs = list(combinations(blocks[0], 2))
    p = []
    for one, other in pairs:
        logs = np.array([_log_ratio(block[one], block[other]) for block in blocks])
        p.append(float(stats.wilcoxon(logs).pvalue) if logs.any() else 1.0)
    return dict(zip(pairs, holm(p), strict=True))


def _log_ratio(one: float, other: float) -> float:
    if one == other:
        return 0.0
    with np.errstate(divide="ignore"):
        return float(np.clip(np.log(one) - np.log(other), -1e3, 1e3))
