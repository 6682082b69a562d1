"""Costs of a typical iteration, the share of them that is thrown away, and the lines at which the host waits."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ganexp.watching.events import Event, Gradient, NetworkPass, OptimizerStep, Wait
from ganexp.watching.trace import Trace


@dataclass
class PassCost:
    """The cost of one event."""

    what: str  # a network's letter, `b` with the networks that got gradients, or a step
    place: str  # `file:line`
    ms: float  # time on the host while watched
    operations: int  # of matrix products and convolutions; a multiplication and an addition are two
    activations: int  # the most bytes that autograd kept for backward passes since the row before, without weights
    wasted: int  # operations that change no weight: of gradients that no step uses, and of passes that no gradient reads
    remark: str  # what is thrown away, and how to avoid it


@dataclass
class HostWait:
    """A line that reads a value from the device by `.item()`, `.cpu()` or `float(…)`. On a GPU, the host waits there."""

    place: str  # `file:line`
    per_iteration: float  # reads in an iteration


def typical(trace: Trace, turns: Sequence[Sequence[Event]]) -> list[int]:
    """Return which iterations are like most others: the same passes, gradients and steps at the same lines, in this order.

    Pictures in some iterations, lazy penalties and a first iteration with few steps are in the others. Of several kinds with
    as many iterations, the one that comes last is typical: training has settled then.
    """
    cost = NetworkPass | Gradient | OptimizerStep
    kinds = [tuple((type(e), e.place) for e in own_events(trace, turn) if isinstance(e, cost)) for turn in turns]
    frequent = Counter(kinds)
    most = max(reversed(kinds), key=frequent.__getitem__, default=())
    return [number for number, kind in enumerate(kinds) if kind == most]


def own_events(trace: Trace, turn: Sequence[Event]) -> list[Event]:
    """Return an iteration without passes that no gradient reads and that keep no graph: pictures and validation."""
    return [event for event in turn if not isinstance(event, NetworkPass) or event.graph or event in trace.read]


def why_not_alike(trace: Trace, turn: Sequence[Event]) -> str:
    """Return what an iteration has that ganexp's strategies would not have on copies of its networks; empty if nothing.

    Costs stand beside each other only if they are of the same steps and the same terms.
    """
    if any(isinstance(event, OptimizerStep) and event.player.role not in ("D", "G") for event in turn):
        return "a further optimiser makes steps"
    for update in trace.updates(turn):
        scored = {network_pass.number for network_pass in update.real + update.fake}
        if any(n not in scored for gradient in update.gradients for n in gradient.of):
            return f"{update.role}'s loss has terms besides D's scores"
        if len(update.fake) != 1 or len(update.real) != (update.role == "D"):
            return f"{update.role}'s loss does not compare one batch with another"
    return ""


def waits(turns: Sequence[Sequence[Event]]) -> list[HostWait]:
    """Return the lines at which the host waits for values, the most frequent first.

    They are a cost and no fault, since the training is the same. What is read in one iteration of three or more has no rate and
    is left out: set-up, or a picture of the first iteration, which stands before the first step of the second.
    """
    per_turn = [Counter(event.place for event in turn if isinstance(event, Wait)) for turn in turns]
    settled = per_turn[2:] or per_turn[1:] or per_turn
    rates = []
    for place in dict.fromkeys(place for reads in per_turn for place in reads):
        there = [number for number, reads in enumerate(per_turn) if place in reads]
        gaps = {after - before for before, after in pairwise(there)}
        rate = sum(reads[place] for reads in settled) / len(settled)
        if len(gaps) == 1 and 1 not in gaps:
            rate = per_turn[there[-1]][place] / min(gaps)
        if rate and (len(there) > 1 or len(turns) < 3):
            rates.append(HostWait(place, rate))
    return sorted(rates, key=lambda wait: -wait.per_iteration)


def costs(trace: Trace, turn: Sequence[Event], names: Mapping[int, str]) -> list[PassCost]:
    """Return a row for each pass, backward pass and step of an iteration, in their order.

    Args:
        trace: The trace.
        turn: The events of the iteration, without pictures and validation.
        names: The loop's names of its networks, by their `id`.
    """
    read = {(passed.network, passed.place) for passed in trace.read}  # a pool returns fakes, if not each time
    rows: list[PassCost] = []
    known: dict[int, NetworkPass] = {}
    kept = 0
    for event in turn:
        kept = max(kept, event.activations)
        wasted, remark = 0, ""
        if isinstance(event, NetworkPass):
            role = event.player.role
            what = role if role != "D" else "f" if trace.is_fake(event) else "r"
            before = known.setdefault(event.latents, event) if event.player.role == "G" else event
            if (event.network, event.place) not in read:
                wasted, remark = event.operations, "no gradient reads this pass; leave it out, or run it under torch.no_grad()"
            elif before is not event and (before.network, before.outputs) == (event.network, event.outputs):
                wasted, remark = event.operations, "the same fakes are generated twice; strategy=detach generates them once"
        elif isinstance(event, Gradient):
            what = "b" + "".join(sorted({trace.players[n].role for n in event.wrote}))
            wasted, remark = _unused(trace, event, names)
        elif isinstance(event, OptimizerStep):
            what = f"{event.player.role}+"
        else:
            continue
        rows.append(PassCost(what, event.place, event.ms, event.operations, kept, wasted, remark))
        kept = 0
    return rows


def _unused(trace: Trace, gradient: Gradient, names: Mapping[int, str]) -> tuple[int, str]:
    """Return the operations of a backward pass that `inputs=` would save, and the remark on them."""
    active = {n for n in gradient.wrote if _used(trace, gradient, n)}
    idle = gradient.wrote - active
    if gradient.functional or not idle:
        return 0, ""
    if not active:
        return gradient.operations, "no step moves along these gradients; leave this backward pass out"
    useless = {n for n in trace.players if not _used(trace, gradient, n)}
    wasted = sum(count for owners, count in gradient.by_owners.items() if owners and owners <= useless)
    without = " and ".join(_networks(trace, idle, names))
    inputs = ", ".join(f"*{name}.parameters()" for name in _networks(trace, active, names))
    return wasted, f"gradients of {without} that no step uses; backward(inputs=[{inputs}]) leaves them out"


def _networks(trace: Trace, players: set[int], names: Mapping[int, str]) -> list[str]:
    """Return the loop's names of players' networks, or a player's role where they are not known."""
    owners = {trace.players[number] for number in players}
    run = {(names.get(id(p.network), p.player.role), p.player) for p in trace.passes.values() if p.player in owners}
    not_run = owners - {owner for _, owner in run}
    return sorted({name for name, _ in run} | {owner.role for owner in not_run})


def _used(trace: Trace, gradient: Gradient, number: int) -> bool:
    """Return whether any optimiser moved a player's weights along a gradient."""
    return any(gradient.number in step.along and step.player.ids & trace.players[number].ids for step in trace.steps)
