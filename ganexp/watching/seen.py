"""`ganexp.watch(…)`: watch a loop, and say what it does."""

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from torch import nn
from torch.optim import Optimizer

from ganexp.strategies import Strategy, by_name
from ganexp.strategies.base import as_strategy
from ganexp.watching.candidates import told
from ganexp.watching.check import check
from ganexp.watching.costs import HostWait, PassCost, costs, waits
from ganexp.watching.events import Event, Player
from ganexp.watching.faults import Fault, faults
from ganexp.watching.instead import Instead, instead
from ganexp.watching.iterations import Story
from ganexp.watching.players import Players
from ganexp.watching.recorder import Recorder
from ganexp.watching.report import text
from ganexp.watching.rule import Rule, averages, rule
from ganexp.watching.trace import trace

CLOSE = {torch.float64: 1e-6, torch.float32: 1e-2}
"""Relative difference of updates up to which rounding explains it."""


class WatchedLoop:
    """A loop that is watched, as a context; when it is left, the report.

    It changes nothing in the loop. `costs` has one row for each pass of the last iteration, and `instead` one for each strategy
    that was counted in its place on the loop's own networks.
    """

    def __init__(self, recorder: Recorder, strategies: Mapping[str, Callable[..., None]] | None = None) -> None:
        self._recorder = recorder
        self._further = strategies or {}
        self._known = by_name() | {name: as_strategy(one) for name, one in self._further.items()}
        self.traces: list[str] = []
        self.costs: list[PassCost] = []
        self.instead: list[Instead] = []
        self.uncounted = ""
        self.waits: list[HostWait] = []
        self.averaged: set[str] = set()
        self.difference: float | None = None
        self.found = Rule(None, why="nothing was watched")
        self.checked = ""
        self.iterations = 0
        self.faulty: list[Fault] = []
        self.story: Story | None = None
        self.events: list[Event] = []

    @property
    def rule(self) -> str | None:
        """The name of a strategy of ganexp; None where the loop follows none of them or where that cannot be told."""
        return self.found.name

    @property
    def trace(self) -> str:
        """The letters of the last iteration."""
        return self.traces[-1] if self.traces else ""

    @property
    def faults(self) -> list[str]:
        """The faults as sentences; empty for a sound loop."""
        return [str(one) for one in self.faulty]

    @property
    def operations(self) -> int:
        """Operations of products and convolutions in the last iteration."""
        return sum(one.operations for one in self.costs)

    @property
    def activations(self) -> int:
        """The most bytes that autograd kept for backward passes in the last iteration, weights excepted."""
        return max((one.activations for one in self.costs), default=0)

    def __enter__(self) -> Self:
        self._recorder.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._recorder.stop()
        self._tell()
        self._recorder.snapshots.copies.clear()
        self._recorder.snapshots.ends.clear()

    def _tell(self) -> None:
        recorder = self._recorder
        story = self.story = Story(recorder.events, recorder.players)
        self.faulty = faults(story)
        turns = story.iterations()
        self.iterations = len(turns)
        self.traces = [trace(story, one) for one in turns] or [trace(story, recorder.events)]
        self.events = [*(turns[-1] if turns else recorder.events)]
        self.costs = costs(story, self.events)
        self.waits = waits(story)
        if not turns:
            what = "no iteration was complete: G and D must both make a step"
            failed = next((one for one in story.gradients.values() if one.failed), None)
            self.found = Rule(None, why=f"the backward pass at {failed.place} failed" if failed else what)
            return
        found = [rule(story, one, self._known) for one in turns]
        self.found = found[-1]
        self.found.wrappers = tuple(dict.fromkeys(name for one in found for name in one.wrappers))
        self.instead, self.uncounted = instead(recorder, story, turns[0], found[0])
        self.averaged = averages(story) if "lookahead" not in self.found.wrappers else set()
        kinds = {(one.name, one.d_steps, one.g_steps) for one in found[-2:]}
        if len(kinds) > 1:
            self.found = Rule(None, nearest=found[-1].name, why="its iterations differ: watch more of them")
        wrong = [one for one in self.faulty if one.kind in SPOIL]
        if wrong and self.found.name:
            self.found = self.found.without_name(f"see the fault at {wrong[0].place}")
        named = self._known.get(self.found.name or "")
        if named and not (named.looks_ahead or named.differentiates_gradients) and found[0].name == self.found.name:
            # averages that come back every k iterations leave the first one as it is
            around = tuple(one for one in self.found.wrappers if one != "lookahead" or one in found[0].wrappers)
            alike = self._known[named.equals] if "scores" in named.needs else named  # which has no condition on the loss
            self.difference, self.checked = check(recorder, story, turns[0], replace(found[0], wrappers=around), alike)
            if self.difference is not None:
                self._weigh()
        elif self.found.name:
            self.checked = "not checked by running it again: the trace alone tells the rule"
        if self.found.candidates and not wrong:
            self._tell_apart(turns)

    def _tell_apart(self, turns: Sequence[Sequence[Event]]) -> None:
        """Name the candidate that makes the loop's updates, if one alone does."""
        assert self.story is not None
        alike, why = told(self._recorder, self.story, turns, self.found, self._known)
        if len(alike) > 1:
            why = f"{' and '.join(alike)} make the same updates, up to rounding"
        if len(alike) == 1:
            self.found.name, self.difference = next(iter(alike.items()))
            of_ours = "" if self.found.name in self._further else "ganexp's "
            by_default = " with its default settings," if of_ours else ","
            self.checked = (
                f"checked: {of_ours}{self.found.name}{by_default} on the same weights and batches, makes the "
                f"updates of {len(turns[:2])} iterations to within {self.difference:.1g} of their size"
            )
        elif not self.found.name:
            self.checked = f"not told apart, though several strategies fit the trace: {why}"

    def _weigh(self) -> None:
        """Drop the name if the named strategy makes other updates."""
        assert self.difference is not None
        dtypes = {p.dtype for one in self._recorder.players.values() for p in one.parameters()}
        limit = max(CLOSE.get(one, 0.1) for one in dtypes)
        if self.difference <= limit:
            self.checked = (
                f"checked: ganexp's {self.found.name}, on the same weights and batches, makes these updates to within "
                f"{self.difference:.1g} of their size"
            )
            return
        why = f"its updates from the same weights and batches differ by {self.difference:.1g} of their size"
        self.found = self.found.without_name(f"{why} (terms besides the scores, or random layers?)")

    def json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        named = self._known.get(self.rule or "", Strategy())
        return {
            "rule": self.rule,
            "command": self.found.command if self.rule and self.rule not in self._further else None,
            "class": self._known.get(named.equals, named).family,
            "nearest": self.found.nearest,
            "why": self.found.why,
            "candidates": self.found.candidates,
            "checked": self.checked,
            "averaged": sorted(self.averaged),
            "difference": self.difference,
            "iterations": self.iterations,
            "trace": self.trace,
            "traces": self.traces,
            "faults": [vars(one) for one in self.faulty],
            "costs": [vars(one) for one in self.costs],
            "operations": self.operations,
            "activations": self.activations,
            "waits": [vars(one) for one in self.waits],
            "instead": [vars(one) for one in self.instead],
            "uncounted": self.uncounted,
            "compiled": self._recorder.compiled,
        }

    def __str__(self) -> str:
        return text(self.json())

    def _repr_html_(self) -> str:
        return f'<pre style="white-space: pre-wrap">{html.escape(str(self))}</pre>'

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, Any]:
        return {
            "text/plain": str(self),
            "text/html": self._repr_html_(),
            "application/json": self.json(),
        }


SPOIL = {
    *("other_loss", "accumulated", "same_loss", "stale", "no_gradient", "zero_gradient", "no_grad", "detached_scores"),
    *("fake_unseen", "frozen", "in_both", "same_way", "not_finite"),
}
"""Faults with which a loop does not follow the rule that its trace looks like."""


def watch(
    generators: nn.Module | Iterable[nn.Module] | None = None,
    discriminators: nn.Module | Iterable[nn.Module] | None = None,
    optimizers_g: Optimizer | Iterable[Optimizer] | None = None,
    optimizers_d: Optimizer | Iterable[Optimizer] | None = None,
    *,
    strategies: Mapping[str, Callable[..., None]] | None = None,
    on_step: Callable[[Player], None] = lambda player: None,
) -> WatchedLoop:
    """Return a context that watches what happens inside, and says at its end which update rule that is, and what is wrong.

    Args:
        generators: The networks of G, one or several; without them, networks belong to the optimiser that moves them, and
            players are found by the flow between their networks.
        discriminators: The networks of D, one or several.
        optimizers_g: The optimisers of G, one or several.
        optimizers_d: The optimisers of D, one or several.
        strategies: Further strategies that the loop may follow, by name, besides ganexp's own with their defaults: those of
            your own, or ganexp's with other settings. They are looked for where they declare `looks_ahead` or
            `differentiates_gradients`; what a plain loop does is told by its trace.
        on_step: Called with the player before each step; what it raises ends the loop.

    Raises:
        TypeError: Some of the four are missing.
    """
    given = (generators, discriminators, optimizers_g, optimizers_d)
    if all(one is None for one in given):
        return WatchedLoop(Recorder(Players(), on_step), strategies)
    if any(one is None for one in given):
        raise TypeError("watch() takes G, D and the optimisers of both, or nothing and finds them")
    g, d, of_g, of_d = ([one] if isinstance(one, nn.Module | Optimizer) else [*one] for one in given)  # type: ignore[misc]
    return WatchedLoop(Recorder(Players((g, d), (of_g, of_d)), on_step), strategies)  # type: ignore[arg-type]
