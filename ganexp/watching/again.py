"""Runs strategies on a loop's networks, for the report, apart from the training that follows and within a limited time."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from ganexp.strategies import Strategy
from ganexp.watching.alternatives import AlternativeCost, alternative_costs
from ganexp.watching.candidates import matching_strategies
from ganexp.watching.comparison import compare_updates
from ganexp.watching.events import Event
from ganexp.watching.isolation import NotRun, Result, isolated
from ganexp.watching.recorder import Recorder
from ganexp.watching.replay_gan import KeptTurns, why_not_replayable
from ganexp.watching.rule import Rule
from ganexp.watching.trace import Trace

LEAST = 5.0
"""Seconds that all of it may take, however quick the loop is."""


class Again:
    """What strategies do from the states of a loop. All of it takes no longer than ten of its iterations, or `LEAST`.

    Args:
        recorder: What was recorded; its states are those that strategies begin from.
        trace: The trace of the loop.
        iterations: Its turns, in the last of which it has settled.
        rules: The rule of each turn.
        alike: The numbers of typical turns. The first of these whose states were kept is run again, or another one.
        here: Whether networks may be run in this process where it cannot be copied, since no training follows.
    """

    def __init__(
        self,
        recorder: Recorder,
        trace: Trace,
        iterations: Sequence[Sequence[Event]],
        rules: Sequence[Rule],
        alike: Sequence[int],
        *,
        here: bool,
    ) -> None:
        self.recorder, self.trace, self.iterations, self.here = recorder, trace, iterations, here
        kinds = [(rule.name, rule.d_steps, rule.g_steps) for rule in rules]
        settled = [number for number, kind in enumerate(kinds) if kind == kinds[-1]]
        kept = [n for n in settled if KeptTurns.of(recorder, trace, [iterations[n]]) is not None]
        number = next((n for n in kept if n in alike), next(iter(kept), len(rules) - 1))
        self.turn, self.rule = iterations[number], rules[number]
        seconds = max(LEAST, 10 * (recorder.snapshots.ended - recorder.snapshots.began) / len(iterations))
        self.until = time.monotonic() + seconds
        if seconds > LEAST:
            print(f"ganexp runs these networks again, to check the rule, for at most {seconds:.0f} s …", file=sys.stderr)

    def costs(self) -> tuple[list[AlternativeCost], str]:
        """Return the costs of other strategies, or why there are none."""
        return self._apart(alternative_costs, [], [[self.turn]], self.rule, self.until)

    def difference(self, rule: Rule, strategy: Strategy) -> tuple[float | None, str]:
        """Return how far a strategy's weights lie from the loop's after a turn, or why that is not known."""
        difference, why = self._apart(compare_updates, None, [[self.turn]], rule, strategy)
        return difference, f"not checked: {why}" if why else ""

    def matches(self, rule: Rule, known: Mapping[str, Strategy]) -> tuple[dict[str, float], str]:
        """Return which of a rule's candidates make the loop's updates, and how far their weights lie from its own."""
        following = (self.iterations[number : number + 2] for number in range(max(1, len(self.iterations) - 1)))
        return self._apart(matching_strategies, {}, following, rule, known, self.until)

    def _apart(
        self,
        function: Callable[..., tuple[Result, str]],
        otherwise: Result,
        choices: Iterable[Sequence[Sequence[Event]]],
        *args: Any,
    ) -> tuple[Result, str]:
        """Return what a function returns of the first of these turns whose states were kept, or `otherwise` and why not."""

        def work() -> tuple[Result, str]:
            kept = (KeptTurns.of(self.recorder, self.trace, turns) for turns in choices)
            turns = next((turns for turns in kept if turns is not None), None)
            why = why_not_replayable(self.trace, turns)
            if why or turns is None:
                return otherwise, why
            with torch.compiler.set_stance("force_eager") if self.recorder.compiled else nullcontext():
                return function(turns, *args)

        try:
            return isolated(work, self.until, here=self.here)
        except NotRun as why:
            return otherwise, str(why)
