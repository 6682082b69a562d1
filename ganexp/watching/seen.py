"""`ganexp.watch(…)`: watch a loop, and say what it does."""

import html
from collections.abc import Callable, Iterable
from typing import Any, Self

import torch
from torch import nn
from torch.optim import Optimizer

from ganexp.watching.check import STRATEGIES, check
from ganexp.watching.costs import PassCost, costs
from ganexp.watching.events import Event, Player
from ganexp.watching.faults import Fault, faults
from ganexp.watching.iterations import Story
from ganexp.watching.recorder import Recorder
from ganexp.watching.rule import Rule, rule
from ganexp.watching.trace import trace

CLOSE = {torch.float64: 1e-6, torch.float32: 1e-2}
"""Relative difference of updates up to which rounding explains it."""


class WatchedLoop:
    """A loop that is watched, as a context; when it is left, the report.

    It changes nothing in the loop. `costs` has one row for each pass of the last iteration.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.traces: list[str] = []
        self.costs: list[PassCost] = []
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

    def __enter__(self) -> Self:
        self._recorder.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._recorder.stop()
        self._tell()
        self._recorder.copies.clear()

    def _tell(self) -> None:
        recorder = self._recorder
        story = self.story = Story(recorder.events, recorder.players)
        self.faulty = faults(story)
        turns = story.iterations()
        self.iterations = len(turns)
        self.traces = [trace(story, one) for one in turns] or [trace(story, recorder.events)]
        self.events = [*(turns[-1] if turns else recorder.events)]
        self.costs = costs(story, self.events)
        if not turns:
            what = "no iteration was complete: G and D must both make a step"
            failed = next((one for one in story.gradients.values() if one.failed), None)
            self.found = Rule(None, why=f"the backward pass at {failed.place} failed" if failed else what)
            return
        found = [rule(story, one) for one in turns]
        self.found = found[-1]
        self.found.wrappers = tuple(dict.fromkeys(name for one in found for name in one.wrappers))
        kinds = {(one.name, one.d_steps, one.g_steps) for one in found[-2:]}
        if len(kinds) > 1:
            self.found = Rule(None, nearest=found[-1].name, why="its iterations differ: watch more of them")
        wrong = [one for one in self.faulty if one.kind in SPOIL]
        if wrong and self.found.name:
            self.found = Rule(
                None, self.found.d_steps, self.found.g_steps, nearest=self.found.name, why=f"see the fault at {wrong[0].place}"
            )
        if self.found.name in STRATEGIES and found[0].name == self.found.name:
            self.difference, self.checked = check(recorder, story, turns[0], found[0])
            if self.difference is not None:
                self._weigh()
        elif self.found.name:
            self.checked = "not checked: told by the trace"

    def _weigh(self) -> None:
        """Drop the name if the named strategy makes other updates."""
        assert self.difference is not None
        dtypes = {p.dtype for one in self._recorder.players.values() for p in one.parameters()}
        limit = max(CLOSE.get(one, 0.1) for one in dtypes)
        if self.difference <= limit:
            self.checked = (
                f"checked: from the same weights and batches, its updates differ by {self.difference:.1g} of their size"
            )
            return
        why = f"its updates from the same weights and batches differ by {self.difference:.1g} of their size"
        self.found = Rule(
            None,
            self.found.d_steps,
            self.found.g_steps,
            nearest=self.found.name,
            why=f"{why} (terms besides the scores, or random layers?)",
        )

    def json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "rule": self.rule,
            "command": self.found.command if self.rule else None,
            "class": self.found.kin,
            "nearest": self.found.nearest,
            "why": self.found.why,
            "checked": self.checked,
            "difference": self.difference,
            "iterations": self.iterations,
            "trace": self.trace,
            "traces": self.traces,
            "faults": [vars(one) for one in self.faulty],
            "costs": [vars(one) for one in self.costs],
        }

    def __str__(self) -> str:
        lines = [f"Watched {self.iterations} iteration{'s' * (self.iterations != 1)}."]
        lines += [f"  trace   {one}" for one in dict.fromkeys(self.traces)]
        found = self.found
        if found.name:
            kin = f" ({found.kin})" if found.kin else ""
            lines += [f"  rule    {found.name}{kin}", f"          {found.command}"]
        else:
            near = f"; the nearest is {found.nearest}" if found.nearest else ""
            lines += [f"  rule    none of ganexp's, or not to be told: {found.why}{near}"]
        lines += [f"          {self.checked}"] * bool(self.checked)
        lines += [f"  cost    {one}" for one in _in_words(self.costs)]
        lines += [f"  fault   {one}" for one in self.faults] or ["  faults  none"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

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


def _in_words(rows: Iterable[PassCost]) -> list[str]:
    rows = [*rows]
    total = sum(one.ms for one in rows)
    if not rows or not total:
        return []
    lines = [", ".join(f"{one.what} {one.ms / total:.0%}" for one in rows) + f" of {total:.1f} ms (watched)"]
    operations, wasted = sum(one.operations for one in rows), sum(one.wasted for one in rows)
    if wasted:
        lines.append(f"{wasted / operations:.0%} of the operations are thrown away")
    lines += [f"{one.what}: {one.remark}" for one in rows if one.remark]
    return lines


def watch(
    generators: nn.Module | Iterable[nn.Module] | None = None,
    discriminators: nn.Module | Iterable[nn.Module] | None = None,
    optimizers_g: Optimizer | Iterable[Optimizer] | None = None,
    optimizers_d: Optimizer | Iterable[Optimizer] | None = None,
    *,
    on_step: Callable[[Player], None] = lambda player: None,
) -> WatchedLoop:
    """Return a context that watches what happens inside, and says at its end which update rule that is, and what is wrong.

    Args:
        generators: The networks of G, one or several; without them, networks belong to the optimiser that moves them, and
            players are found by the flow between their networks.
        discriminators: The networks of D, one or several.
        optimizers_g: The optimisers of G, one or several.
        optimizers_d: The optimisers of D, one or several.
        on_step: Called with the player before each step; what it raises ends the loop.

    Raises:
        TypeError: Some of the four are missing.
    """
    given = (generators, discriminators, optimizers_g, optimizers_d)
    if all(one is None for one in given):
        return WatchedLoop(Recorder(on_step=on_step))
    if any(one is None for one in given):
        raise TypeError("watch() takes G, D and the optimisers of both, or nothing and finds them")
    g, d, of_g, of_d = ([one] if isinstance(one, nn.Module | Optimizer) else [*one] for one in given)  # type: ignore[misc]
    return WatchedLoop(Recorder((g, d), (of_g, of_d), on_step))  # type: ignore[arg-type]
