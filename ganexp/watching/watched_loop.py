"""`ganexp.watch(…)`: a context that watches a loop and reports its update rule, costs and faults."""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

from torch import nn
from torch.optim import Optimizer

from ganexp.strategies import Strategy, by_name
from ganexp.strategies.base import as_strategy
from ganexp.watching import report
from ganexp.watching.again import Again
from ganexp.watching.alternatives import AlternativeCost
from ganexp.watching.comparison import CLOSE
from ganexp.watching.costs import HostWait, PassCost, costs, own_events, typical, waits, why_not_alike
from ganexp.watching.events import Event, NetworkPass, Player
from ganexp.watching.faults import KINDS, Fault, faults, not_looked_at
from ganexp.watching.isolation import why_not_isolated
from ganexp.watching.letters import legend, letters
from ganexp.watching.names import arguments, by_object
from ganexp.watching.players import Players
from ganexp.watching.recorder import CHANGED, Recorder
from ganexp.watching.rule import Rule, averages, incomplete, no_game, rule, settled
from ganexp.watching.trace import Trace

FAULTS_THAT_HIDE_THE_RULE = {
    *("other_loss", "accumulated", "same_loss", "stale", "no_gradient", "zero_gradient", "no_grad", "detached_scores"),
    *("fake_unseen", "real_unseen", "frozen", "in_both", "same_way", "not_finite", "stray_step", "never_moves"),
}
"""Kinds of faults with which a loop's updates differ from those of the strategy that has its trace."""


class WatchedLoop:
    """A context that records a loop, and holds the report after its end. It changes nothing in the loop.

    `costs` has a row for each pass of a typical iteration, and `instead` a row for each strategy whose cost was counted on
    copies of the loop's networks.
    """

    def __init__(
        self, recorder: Recorder, strategies: Mapping[str, Callable[..., None]] | None = None, *, nothing_follows: bool = False
    ) -> None:
        self._recorder = recorder
        self._nothing_follows = nothing_follows
        self._further = strategies or {}
        self._known = by_name() | {name: as_strategy(strategy) for name, strategy in self._further.items()}
        self.traces: list[str] = []
        self.costs: list[PassCost] = []
        self.instead: list[AlternativeCost] = []
        self.waits: list[HostWait] = []
        self.averaged: set[str] = set()
        self.difference: float | None = None
        self.identified = Rule(None, why="nothing was watched")
        self.checked = self.uncounted = ""
        self.iterations = 0
        self.fault_records: list[Fault] = []
        self.not_looked_at: dict[str, str] = {}
        self.arguments: list[str] = []
        self.letters: dict[str, str] = {}
        self.recorded: Trace | None = None
        self.events: list[Event] = []

    @property
    def rule(self) -> str | None:
        """The name of ganexp's strategy that the loop follows; None if it follows none, or if that is not known."""
        return self.identified.name

    @property
    def trace(self) -> str:
        """The letters of the last iteration."""
        return self.traces[-1] if self.traces else ""

    @property
    def faults(self) -> list[str]:
        """The faults as sentences; empty for a sound loop."""
        return [str(fault) for fault in self.fault_records]

    @property
    def operations(self) -> int:
        """Operations of matrix products and convolutions in a typical iteration."""
        return sum(cost.operations for cost in self.costs)

    @property
    def activations(self) -> int:
        """The most bytes that autograd kept for backward passes in a typical iteration, without weights."""
        return max((cost.activations for cost in self.costs), default=0)

    @property
    def turns(self) -> int:
        """The iterations that are complete so far."""
        return self._recorder.snapshots.turns

    @property
    def optimizers(self) -> int:
        """How many optimisers the loop has so far."""
        return len(self._recorder.players)

    def __enter__(self) -> Self:
        self._recorder.snapshots.done = bool(why_not_isolated()) and not self._nothing_follows  # nothing will be run again
        self._recorder.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._recorder.stop()
        Recorder.reporting = threading.get_ident()
        try:
            self._analyse()
        finally:
            Recorder.reporting = 0
        self._recorder.snapshots.clear()
        self._recorder.named.clear()

    def _analyse(self) -> None:
        recorder = self._recorder
        trace = self.recorded = Trace(recorder.events, recorder.players)
        in_a_thread = bool(recorder.elsewhere) and not trace.steps
        no_gan = no_game(trace)
        self.fault_records = [] if in_a_thread or no_gan else faults(trace)
        self.not_looked_at = not_looked_at(trace, processes=recorder.processes)
        iterations = trace.iterations()
        self.iterations = len(iterations)
        self.traces = [letters(trace, iteration) for iteration in iterations] or [letters(trace, recorder.events)]
        self.events = [*recorder.events]
        if no_gan or not iterations:
            why = no_gan or incomplete(trace)
            if in_a_thread:
                why = f"{recorder.elsewhere} trains in another thread, which is not watched: call ganexp.watch() in that thread"
            failed = next((gradient for gradient in trace.gradients.values() if gradient.failed), None)
            self.identified = Rule(None, why=f"the backward pass at {failed.place} failed" if failed else why)
            return
        alike = typical(trace, iterations)
        self.events = own_events(trace, iterations[alike[-2:][0]])  # the last may leave gradients to the one after it
        names = by_object(recorder.named)
        networks = ((event.player.now.role, event.network) for event in self.events if isinstance(event, NetworkPass))
        self.arguments = arguments(recorder.players, names, networks)
        self.letters = legend(trace, self.events, names)
        self.costs = costs(trace, self.events, names)
        self.waits = waits(iterations)
        rules = [rule(trace, iteration, self._known) for iteration in iterations]
        self.identified = settled(rules, trace.alone)
        if recorder.not_repeatable == CHANGED:
            self.identified.left_out += ("changes of gradients before a step, such as clipping (clip_gradients=…)",)
        again = Again(recorder, trace, iterations, rules, alike, here=self._nothing_follows)
        self.uncounted = why_not_alike(trace, self.events)
        if not self.uncounted:
            self.instead, self.uncounted = again.costs()
        self.averaged = averages(trace) if "lookahead" not in self.identified.wrappers else set()
        wrong = [fault for fault in self.fault_records if fault.kind in FAULTS_THAT_HIDE_THE_RULE]
        if wrong and self.identified.name:
            self.identified = self.identified.without_name(f"see the fault at {wrong[0].place}")
        named = self._known.get(self.identified.name or "")
        if named and not (named.looks_ahead or named.differentiates_gradients):
            # lookahead does not change an iteration in which it does not average
            wrappers = tuple(name for name in self.identified.wrappers if name != "lookahead" or name in again.rule.wrappers)
            equal = self._known[named.equals] if "scores" in named.needs else named  # an equal strategy that fits any loss
            self.difference, self.checked = again.difference(replace(again.rule, wrappers=wrappers), equal)
            if self.difference is not None:
                self._confirm_name()
        elif self.identified.name:
            self.checked = "not checked by running it again: the trace alone tells the rule"
        if self.identified.candidates and not wrong:
            self._match_candidates(again)

    def _match_candidates(self, again: Again) -> None:
        """Name the candidate that makes the loop's updates, if exactly one does."""
        matches, why = again.matches(self.identified, self._known)
        if len(matches) > 1:
            why = f"{' and '.join(matches)} make the same updates, up to rounding"
        if len(matches) == 1:
            self.identified.name, self.difference = next(iter(matches.items()))
            owner = "" if self.identified.name in self._further else "ganexp's "
            settings = " with its default settings," if owner else ","
            self.checked = (
                f"checked: {owner}{self.identified.name}{settings} on the same weights and batches, makes the "
                f"updates of {len(again.iterations[:2])} iterations, within rounding"
            )
        elif not self.identified.name:
            self.checked = f"not told apart, though several strategies fit the trace: {why}"

    def _confirm_name(self) -> None:
        """Drop the name if the named strategy makes other updates."""
        assert self.difference is not None
        dtypes = {p.dtype for player in self._recorder.players.values() for p in player.parameters()}
        limit = max(CLOSE.get(dtype, 0.1) for dtype in dtypes)
        if self.difference <= limit:
            name = f"ganexp's {self.identified.name}"
            self.checked = f"checked: {name}, on the same weights and batches, makes these updates, within rounding"
            return
        why = f"its updates from the same weights and batches differ by {self.difference:.1g} of their size"
        self.identified = self.identified.without_name(f"{why} (terms besides the scores, or random layers?)")

    def json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        named = self._known.get(self.rule or "", Strategy())
        return {
            "rule": self.rule,
            "command": self.identified.command if self.rule and self.rule not in self._further else None,
            "class": self._known.get(named.equals, named).family,
            **{key: vars(self.identified)[key] for key in ("nearest", "why", "earlier", "left_out", "candidates")},
            "checked": self.checked,
            "averaged": sorted(self.averaged),
            "difference": self.difference,
            "iterations": self.iterations,
            "trace": self.trace,
            "traces": self.traces,
            "typical": letters(self.recorded, self.events) if self.recorded else "",
            "letters": self.letters,
            "faults": [vars(fault) for fault in self.fault_records],
            "looked_at": [kind for kind in KINDS if kind not in self.not_looked_at],
            "not_looked_at": self.not_looked_at,
            "costs": [vars(cost) for cost in self.costs],
            "operations": self.operations,
            "activations": self.activations,
            "waits": [vars(wait) for wait in self.waits],
            "instead": [vars(cost) for cost in self.instead],
            "uncounted": self.uncounted,
            "arguments": self.arguments,
            "compiled": self._recorder.compiled,
        }

    def text(self, verbose: bool = False) -> str:
        """Return the report in at most twelve lines, or with all that was counted."""
        return report.text(self.json(), verbose)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return report.table(self.json())


def watch(
    generators: nn.Module | Iterable[nn.Module] | None = None,
    discriminators: nn.Module | Iterable[nn.Module] | None = None,
    optimizers_g: Optimizer | Iterable[Optimizer] | None = None,
    optimizers_d: Optimizer | Iterable[Optimizer] | None = None,
    *,
    strategies: Mapping[str, Callable[..., None]] | None = None,
    on_step: Callable[[Player], None] = lambda player: None,
    nothing_follows: bool = False,
) -> WatchedLoop:
    """Return a context that watches the loop inside it, and reports its update rule, costs and faults at the end.

    Args:
        generators: The networks of G, one or several. If none of the first four arguments is given, a network belongs to the
            optimiser that moves it, and G and D are found by the flow between the networks.
        discriminators: The networks of D, one or several.
        optimizers_g: The optimisers of G, one or several.
        optimizers_d: The optimisers of D, one or several.
        strategies: Further strategies that the loop may follow, by name: your own, or ganexp's with other settings than their
            defaults. Only those that declare `looks_ahead` or `differentiates_gradients` are tried, since a plain loop is
            identified by its trace.
        on_step: Called with the player before each step; an exception that it raises ends the loop.
        nothing_follows: Whether no training follows in this process. Then networks are run again in it where a copy of the
            process cannot run them, such as on a GPU; otherwise the rule is not checked there.
    """
    given = (generators, discriminators, optimizers_g, optimizers_d)
    players = Players()
    if any(argument is not None for argument in given):
        if any(argument is None for argument in given):
            raise TypeError("watch() takes G, D and the optimisers of both, or nothing and finds them")
        g, d, of_g, of_d = ([argument] if isinstance(argument, nn.Module | Optimizer) else [*argument] for argument in given)  # type: ignore[misc]
        players = Players((g, d), (of_g, of_d))  # type: ignore[arg-type]
    return WatchedLoop(Recorder(players, on_step), strategies, nothing_follows=nothing_follows)
