"""Where a turn of a loop begins: where its code runs again, and a player moves again after another one."""

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
    """A turn of a loop. It ends where code runs again and a player moves again after another one.

    So it does not depend on who moves first: in `G G G D G D G D G`, where D comes before G in the code and begins late, turns
    begin at `D`. Further steps of one player in a row belong to one turn.
    """

    def __init__(self) -> None:
        self.moved: list[Any] = []
        self.reached: Stack = ()

    def begins(self, who: object, reached: Stack) -> bool:
        """Add a step, and return whether a turn begins with it."""
        begins = who in self.moved and self.moved[-1] != who and runs_again(self.reached, reached)
        self.moved = [*([] if begins else self.moved), who]
        self.reached = reached
        return begins
