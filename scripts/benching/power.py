"""Which ratios the comparisons can tell from 1, and how many verdicts hang on how a run is rated."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benching import statistics
from benching.schedule import SEEDS
from benching.verdicts import Block, outcomes_of
from ganexp.compare.ranking import ALPHA


def power(found: Sequence[Block]) -> dict[str, Any] | None:
    """Return which ratios the comparisons can tell from 1, in the blocks where that is easiest and hardest."""
    known = [one for block in found for one in block.fixed]
    if not known:
        return None
    comparisons = max(block.comparisons for block in found)
    effect = statistics.detectable(SEEDS, comparisons)
    middles = {}
    for block in found:
        spreads = [one for one in map(statistics.spread, block.pairs.values()) if math.isfinite(one)]
        if spreads:
            middles[block.name] = float(np.median(spreads))
    off = [one for one in known if one.standing == "unclear" and one.ratio and not one.ratio.low <= 1 <= one.ratio.high]
    ends = sorted(middles, key=lambda name: middles[name])
    return {
        "comparisons": comparisons,
        "effect": effect,
        "percent": 100 * statistics.POWER,
        "ends": [(name, math.exp(-effect * middles[name]), math.exp(effect * middles[name])) for name in ends],
        "off": len(off),
        "uncorrected": sum(one.uncorrected < ALPHA for one in off),
        "moved": moved_by_plateaus(found),
        "all": len(known),
    }


def moved_by_plateaus(found: Sequence[Block]) -> int:
    """Return how many verdicts would be others if seeds were compared by their plateaus, and not by their last figures."""
    moved = 0
    for block in found:
        others = outcomes_of(block, [(one.plateaus, block.base.plateaus) for one in block.fixed])
        moved += sum(other != one.outcome for one, other in zip(block.fixed, others, strict=True))
    return moved
