"""Where a turn of a loop begins: where its code runs again over steps of several players."""

import sys
from traceback import walk_stack
from types import CodeType
from typing import Any

Stack = tuple[tuple[CodeType, int], ...]
"""The functions that are running, the outermost first, each with the instruction that it has reached."""


def stack() -> Stack:
    """Return where the program stands."""
    return tuple((frame.f_code, frame.f_lasti) for frame, _ in walk_stack(sys._getframe(1)))[::-1]


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
