"""What the compared runs say: figures at each budget, who is best in each block, and the conclusions in words."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ganexp.compare.ranking import ALPHA, Outcome, Place, ranked
from studying import ranks
from studying.courses import Course
from studying.plan import Arm

Read = Callable[[str, Course], float]
"""A run's figure at a budget, given its strategy."""


@dataclass(frozen=True)
class Budget:
    """What is the same for all strategies when they are compared."""

    name: str
    read: Read


def budgets(block: Mapping[str, Sequence[Course]], ratios: Mapping[str, float]) -> list[Budget]:
    """Return the three budgets with one loss in one setting, as large as all runs allow.

    Args:
        block: The runs of each strategy.
        ratios: The time of each strategy's iteration, in any unit.
    """
    whole = [run for runs in block.values() for run in runs if not run.diverged]
    iterations = min((run.iterations[-1] for run in whole), default=0)
    images = min((run.images[-1] for run in whole), default=0)
    fastest = min(ratios[strategy] for strategy in block)
    return [
        Budget("updates", lambda _, run: run.at_iteration(iterations)),
        Budget("real images", lambda _, run: run.at_images(images)),
        Budget("time", lambda strategy, run: run.at_iteration(iterations * fastest / ratios[strategy])),
    ]


def places(block: Mapping[str, Sequence[Course]], budget: Budget) -> dict[str, Place]:
    """Return where each strategy stands with one loss in one setting; one that diverged with a seed is not in the running."""
    outcomes: dict[str, list[Outcome]] = {strategy: [] for strategy in block}
    for strategy, runs in block.items():
        for run in runs:
            value = budget.read(strategy, run)
            lost = "" if math.isfinite(value) else "diverged"
            outcomes[strategy].append(Outcome(strategy, strategy, run.seed, None if lost else value, lost))
    standing = {strategy: Place(strategy, reached) for strategy, reached in outcomes.items()}
    whole = [one for strategy, reached in outcomes.items() if not standing[strategy].lost for one in reached]
    return standing | {place.combination: place for place in ranked(whole)[0].places}


def as_block(found: Mapping[str, Place]) -> ranks.Block:
    """Return the mean of every strategy, infinite where a seed diverged."""
    return {strategy: math.inf if place.lost or not place.values else place.mean for strategy, place in found.items()}


def conclusions(standing: Mapping[Arm, Place]) -> list[str]:
    """Return a sentence for each loss, on its settings, and one on where the strategy makes no difference.

    Args:
        standing: Where each strategy stands at equal updates.
    """
    losses = list(dict.fromkeys(arm.loss for arm in standing))
    said = [f"- `{loss}`: {_of_loss({arm: place for arm, place in standing.items() if arm.loss == loss})}" for loss in losses]
    blocks: dict[tuple[str, str], list[Place]] = {}
    for arm, place in standing.items():
        blocks.setdefault((arm.setting, arm.loss), []).append(place)
    equal = [f"`{loss}` on {setting}" for (setting, loss), found in blocks.items() if not any(map(_is_worse, found))]
    said.append(
        f"- No strategy could be told from the best in {len(equal)} of {len(blocks)} blocks"
        + (f": {', '.join(equal)}." if equal else ".")
    )
    return said


def _of_loss(standing: Mapping[Arm, Place]) -> str:
    settings = len({arm.setting for arm in standing})
    tried = Counter(arm.strategy for arm in standing)
    worse: dict[str, list[str]] = {arm.strategy: [] for arm in standing}
    best: dict[str, list[str]] = {arm.strategy: [] for arm in standing}
    for arm, place in standing.items():
        if _is_worse(place):
            worse[arm.strategy].append(arm.setting)
        if place.best:
            best[arm.strategy].append(arm.setting)
    leaders = ", ".join(f"`{name}` ({', '.join(where)})" for name, where in best.items() if where) or "none"
    never = ", ".join(
        f"`{name}`" + (f" (run in {tried[name]})" if tried[name] < settings else "")
        for name, where in worse.items()
        if not where
    )
    losers = "; ".join(f"`{name}` on {', '.join(where)}" for name, where in worse.items() if where)
    return f"best means: {leaders}. Never significantly worse than the best in {settings} settings: {never or 'none'}." + (
        f" Worse: {losers}." if losers else ""
    )


def _is_worse(place: Place) -> bool:
    return bool(place.lost) or not place.values or (place.p is not None and place.p < ALPHA)
