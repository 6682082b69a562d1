"""What the passes of an iteration cost, and which part of it is thrown away."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ganexp.watching.events import Event, Gradient, NetworkPass, OptimizerStep, Wait
from ganexp.watching.iterations import Story


@dataclass
class PassCost:
    """The cost of one event.

    Args:
        what: The event: a network's letter, `backward`, or a step.
        place: `file:line`.
        ms: Time on the host, watched.
        operations: Operations of products and convolutions; a multiplication and an addition are two.
        activations: The most bytes that autograd kept for backward passes, weights excepted, since the row before.
        wasted: How many of them are for gradients that are thrown away, or for fakes that are there already.
        remark: What of it is thrown away, and what would save it.
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
    """A line at which the host reads a value from the device, by `.item()`, `.cpu()` or `float(…)`, and on a GPU waits for it.

    Args:
        place: `file:line`.
        per_iteration: How often an iteration does so.
    """

    place: str
    per_iteration: float


def waits(story: Story) -> list[HostWait]:
    """Return the lines at which the host waits for values.

    They are a cost, and no fault: the training is the same, and on a CPU nothing waits.
    """
    turns = max(1, len(story.iterations()))
    places = Counter(one.place for one in story.events if isinstance(one, Wait))
    return [HostWait(place, count / turns) for place, count in places.items()]


def costs(story: Story, events: Sequence[Event]) -> list[PassCost]:
    """Return one row for each pass, backward pass and step of an iteration, in their order."""
    rows: list[PassCost] = []
    used = {n for one in story.steps for n in one.along}
    known: dict[int, NetworkPass] = {}
    kept = count = 0
    for one in events:
        if len(rows) > count:
            kept, count = 0, len(rows)
        kept = max(kept, one.activations)
        if isinstance(one, NetworkPass):
            remark, wasted = "", 0
            if one.player.role == "G":
                before = known.get(one.latents)
                if before is not None and before.network is one.network and before.made == one.made:
                    wasted = one.operations
                    remark = "the same fakes are generated twice; strategy=detach generates them once"
                known.setdefault(one.latents, one)
            letter = one.player.role if one.player.role != "D" else "f" if story.is_fake(one) else "r"
            rows.append(PassCost(letter, one.place, one.ms, one.operations, kept, wasted, remark))
        elif isinstance(one, Gradient):
            idle = {story.players[n].role for n in one.wrote if not _used(story, one, n)}
            remark, wasted = "", 0
            if idle and one.number in used:
                who = " and ".join(sorted(idle))
                wasted = sum(_of_no_use(story, story.passes[n], idle) for n in one.of if n in story.passes)
                instead = "loss.backward(inputs=[*network.parameters()]), with the network that is to step, avoids them"
                remark = f"gradients of {who} that are thrown away; {instead}"
            rows.append(
                PassCost(
                    "b" + "".join(sorted({story.players[n].role for n in one.wrote})),
                    one.place,
                    one.ms,
                    one.operations,
                    kept,
                    wasted,
                    remark,
                )
            )
        elif isinstance(one, OptimizerStep):
            rows.append(PassCost(f"{one.player.role}+", one.place, one.ms, activations=kept))
    return rows


def _of_no_use(story: Story, one: NetworkPass, idle: set[str]) -> int:
    """Return the operations of a backward pass through D that only an idle player's gradients need.

    Gradients by weights cost as much as the pass forward, and so do those by inputs.
    """
    if one.player.role != "D":
        return 0
    attached = [story.passes[n] for n in one.of if n in story.passes and one.attached]
    through = one.operations + sum(2 * made.operations for made in attached) if attached else 0
    return one.operations * ("D" in idle) + through * ("G" in idle)


def _used(story: Story, one: Gradient, number: int) -> bool:
    """Return whether weights of a player were moved along a gradient, by its own optimiser or by another that has them."""
    own = {*map(id, story.players[number].parameters())}
    return any(one.number in step.along and not own.isdisjoint(map(id, step.player.parameters())) for step in story.steps)
