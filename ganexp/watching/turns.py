"""Where the turns of a loop begin: where its code runs again over steps of several players."""

from collections.abc import Sequence
from typing import Any

from ganexp.watching.events import OptimizerStep
from ganexp.watching.places import Stack


def runs_again(before: Stack, now: Stack) -> bool:
    """Return whether code runs again between two places: it lies behind only if the outermost difference is further on."""
    for (code, reached), (code_now, reached_now) in zip(before, now, strict=False):
        if code is not code_now:
            return True  # one line has called both, one after the other
        if reached != reached_now:
            return reached_now < reached
    return True


class Turn:
    """The steps of a turn so far. It ends where the code goes back over steps of several players, the one to move among them.

    So it does not depend on who moves first: in `G G G D G D G D G`, where D comes before G in the code and begins late, turns
    begin at `D`. A loop of further steps of one player goes back over that player alone, and so belongs to one turn.
    """

    def __init__(self) -> None:
        self.steps: dict[tuple[Any, Stack], None] = {}  # who has moved at which places, the last at the end

    def begins(self, who: object, reached: Stack) -> bool:
        """Add a step, and return whether a turn begins with it."""
        step = who, reached
        last = next(reversed(self.steps), step)
        over = {player for player, place in self.steps if runs_again(place, reached) and runs_again(last[1], place)}
        begins = step != last and who in over and len(over) > 1
        self.steps = {step: None} if begins else {**{other: None for other in self.steps if other != step}, step: None}
        return begins


def turns(steps: Sequence[OptimizerStep]) -> list[list[OptimizerStep]]:
    """Return the complete turns among the steps of G and D. Steps of one of them before the other begins are in none."""
    everyone, turn = {*_roles(steps)}, Turn()
    parts: list[list[OptimizerStep]] = []
    for step in steps:
        if turn.begins(step.player.role, step.reached) or not parts or len(everyone) == 1:
            parts.append([])
        parts[-1].append(step)
    parts = [shortest for part in parts for shortest in _shortest(part, whole=len(parts) > 1)]
    while parts and {*_roles(parts[-1])} != everyone:
        parts.pop()  # the loop was stopped within it
    roles = [_roles(part) for part in parts]
    if len(parts) > 2 and roles[-1] == roles[-2][: len(roles[-1])] != roles[-2]:
        parts.pop()
    if len(parts) > 1 and roles[0][-len(roles[1]) :] == roles[1]:  # a player may have begun alone
        parts[0] = parts[0][-len(roles[1]) :]
    return parts


def _roles(steps: Sequence[OptimizerStep]) -> list[str]:
    return [step.player.role for step in steps]


def _shortest(steps: list[OptimizerStep], *, whole: bool) -> list[list[OptimizerStep]]:
    """Split steps in which the same roles move again and again, without a turn; the last part need not be `whole`."""
    for length in range(2, len(steps) // 2 + 1 if whole else len(steps)):
        parts = [steps[i : i + length] for i in range(0, len(steps), length)]
        roles = _roles(parts[0])
        if len({*roles}) > 1 and all(_roles(part) == roles[: length if whole else len(part)] for part in parts):
            return parts
    return [steps]
