"""Costs of the passes of an iteration, and the share of them that is thrown away."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ganexp.watching.events import Event, Gradient, NetworkPass, OptimizerStep, Wait
from ganexp.watching.trace import Trace


@dataclass
class PassCost:
    """The cost of one event.

    Args:
        what: The event: a network's letter, `b` with the networks that got gradients, or a step.
        place: `file:line`.
        ms: Time on the host while watched, in milliseconds.
        operations: Operations of matrix products and convolutions; a multiplication and an addition are two.
        activations: The most bytes that autograd kept for backward passes since the row before, without weights.
        wasted: Operations for gradients that are thrown away, or for fakes that exist already.
        remark: What is thrown away, and how to avoid it.
    """

    what: str
    place: str
    ms: float
    operations: int = 0
    activations: int = 0
    wasted: int = 0
    remark: str = ""


@dataclass
class HostWait:
    """A line that reads a value from the device by `.item()`, `.cpu()` or `float(…)`. On a GPU, the host waits there.

    Args:
        place: `file:line`.
        per_iteration: Reads per iteration.
    """

    place: str
    per_iteration: float


def waits(trace: Trace) -> list[HostWait]:
    """Return the lines at which the host waits for values. They are a cost and no fault, since the training is the same."""
    iterations = max(1, len(trace.iterations()))
    places = Counter(event.place for event in trace.events if isinstance(event, Wait))
    return [HostWait(place, count / iterations) for place, count in places.items()]


def costs(trace: Trace, events: Sequence[Event]) -> list[PassCost]:
    """Return a row for each pass, backward pass and step of an iteration, in their order."""
    rows: list[PassCost] = []
    used = {n for step in trace.steps for n in step.along}
    known: dict[int, NetworkPass] = {}
    kept = count = 0
    for event in events:
        if len(rows) > count:
            kept, count = 0, len(rows)
        kept = max(kept, event.activations)
        if isinstance(event, NetworkPass):
            remark, wasted = "", 0
            if event.player.role == "G":
                before = known.get(event.latents)
                if before is not None and before.network is event.network and before.outputs == event.outputs:
                    wasted = event.operations
                    remark = "the same fakes are generated twice; strategy=detach generates them once"
                known.setdefault(event.latents, event)
            letter = event.player.role if event.player.role != "D" else "f" if trace.is_fake(event) else "r"
            rows.append(PassCost(letter, event.place, event.ms, event.operations, kept, wasted, remark))
        elif isinstance(event, Gradient):
            idle = {trace.players[n].role for n in event.wrote if not _used(trace, event, n)}
            remark, wasted = "", 0
            if idle and event.number in used:
                who = " and ".join(sorted(idle))
                wasted = sum(_of_no_use(trace, trace.passes[n], idle) for n in event.of if n in trace.passes)
                instead = "loss.backward(inputs=[*network.parameters()]), with the network that is to step, avoids them"
                remark = f"gradients of {who} that are thrown away; {instead}"
            rows.append(
                PassCost(
                    "b" + "".join(sorted({trace.players[n].role for n in event.wrote})),
                    event.place,
                    event.ms,
                    event.operations,
                    kept,
                    wasted,
                    remark,
                )
            )
        elif isinstance(event, OptimizerStep):
            rows.append(PassCost(f"{event.player.role}+", event.place, event.ms, activations=kept))
    return rows


def _of_no_use(trace: Trace, network_pass: NetworkPass, idle: set[str]) -> int:
    """Return the operations of a backward pass through D that compute gradients of idle players alone.

    Gradients of the weights cost as much as the forward pass, and so do gradients of the inputs.
    """
    if network_pass.player.role != "D":
        return 0
    attached = [trace.passes[n] for n in network_pass.of if n in trace.passes and network_pass.attached]
    through = network_pass.operations + sum(2 * generation.operations for generation in attached) if attached else 0
    return network_pass.operations * ("D" in idle) + through * ("G" in idle)


def _used(trace: Trace, gradient: Gradient, number: int) -> bool:
    """Return whether any optimiser moved a player's weights along a gradient."""
    own = {*map(id, trace.players[number].parameters())}
    return any(gradient.number in step.along and not own.isdisjoint(map(id, step.player.parameters())) for step in trace.steps)
