"""From events to iterations: who is G and who is D, which steps belong together, and what each step learnt from."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ganexp.watching.events import AverageWrite, Event, Gradient, NetworkPass, OptimizerStep, Player, Wait, Write


@dataclass(eq=False)
class Update:
    """One step of a player, with what it learnt from.

    Args:
        step: The step.
        gradients: The backward passes that it moved along.
        real: D's passes over real samples that those come from.
        fake: D's passes over fakes that those come from.
        penalties: D's passes that only a penalty looked at.
    """

    step: OptimizerStep
    gradients: list[Gradient]
    real: list[NetworkPass]
    fake: list[NetworkPass]
    penalties: list[NetworkPass]
    made: list[NetworkPass]

    @property
    def role(self) -> str:
        """Who moves."""
        return self.step.player.role

    @property
    def regularises(self) -> bool:
        """Whether it is a step of its own for a penalty on gradients, as lazy regularisation makes."""
        return not self.fake and any(one.through for one in self.gradients)

    @property
    def latents(self) -> set[int]:
        """What the fakes were made from."""
        return {one.latents for one in self.made}


class Story:
    """The events of a loop, looked up by number, with the roles of the players."""

    def __init__(self, events: Sequence[Event], players: dict[int, Player]) -> None:
        self.events = events
        self.place = {one: number for number, one in enumerate(events)}
        self.players = players
        self.passes = {one.number: one for one in events if isinstance(one, NetworkPass)}
        self.gradients = {one.number: one for one in events if isinstance(one, Gradient)}
        self.steps = [one for one in events if isinstance(one, OptimizerStep)]
        self._give_roles()

    def _give_roles(self) -> None:
        """Name the players by the flow between their networks: D's are fed by G's, and feed nobody.

        What a network gives back to the player that has fed it does not count: G may read D's features of a fake.
        """
        moving = {id(one.player): one.player for one in self.steps} | {id(o.player): o.player for o in self.passes.values()}
        unnamed = [one for one in moving.values() if not one.role]
        sources_of = {one: [self.passes[n] for n in one.of if n in self.passes] for one in self.passes.values()}
        feeds = {
            (source.player, one.player)
            for one, sources in sources_of.items()
            for source in sources
            if not any(before.player is one.player for before in sources_of[source])
        }
        sources = {a for a, b in feeds if a is not b}
        for one in unnamed:
            fed = any(b is one and a is not one for a, b in feeds)
            if one in sources:
                one.role = "G"
            elif fed:
                one.role = "D"
        together = [one for one in unnamed if one.role == "D" and not self._learns_alone(one)]
        if any(one.role == "D" and one not in together for one in moving.values()):
            for number, one in enumerate(together, 3):  # moves along G's own loss, beside a D
                one.role = f"P{number}"
        if len(unnamed) == 2 and sum(bool(one.role) for one in unnamed) == 1:
            missing = {"G", "D"} - {one.role for one in unnamed}
            (other,) = (one for one in unnamed if not one.role)
            other.role = missing.pop()
        for number, one in enumerate([one for one in moving.values() if not one.role], 3):
            one.role = f"P{number}"

    def _learns_alone(self, player: Player) -> bool:
        """Return whether a player has a gradient of its own that moves no other player."""
        own = {n for one in self.steps if one.player is player for n in one.along}
        others = {n for one in self.steps if one.player is not player for n in one.along}
        return bool(own - others)

    def own(self, step: OptimizerStep) -> frozenset[int]:
        """Return the gradients of a step that no other player and no earlier step moved along, or all if there are none."""
        place = self.place[step]
        others = [
            s for s in self.steps if s.player.role != step.player.role or (s.player is step.player and self.place[s] < place)
        ]
        return step.along.difference(*(one.along for one in others)) or step.along

    def update(self, step: OptimizerStep) -> Update:
        """Return what a step learnt from, left aside what it should not have moved along."""
        todo, gradients = [*self.own(step)], {}
        while todo:
            one = self.gradients[todo.pop()]
            if one.number not in gradients:
                gradients[one.number] = one
                todo += one.through | one.seeded
        by_weights = [one for one in gradients.values() if self.by_weights(one)]
        direct = frozenset[int]().union(*(one.of for one in by_weights))
        further = frozenset[int]().union(*(one.of for one in gradients.values())) - direct
        scored = [self.passes[n] for n in sorted(direct) if n in self.passes and self.passes[n].player.role == "D"]
        penalties = [self.passes[n] for n in sorted(further) if n in self.passes]
        fake = [one for one in scored if self.is_fake(one)]
        made = {n for one in fake for n in self.fakes(one)}
        return Update(
            step,
            sorted(by_weights, key=lambda one: one.number),
            [one for one in scored if not self.is_fake(one)],
            fake,
            penalties,
            [self.passes[n] for n in sorted(made)],
        )

    def updates(self, events: Sequence[Event]) -> list[Update]:
        """Return the updates of G and of D among events."""
        return [self.update(one) for one in events if isinstance(one, OptimizerStep) and one.player.role in ("G", "D")]

    def ratio(self, update: Update) -> Tensor | None:
        """Return what each fake's gradient was multiplied by between D and G, `(B,)`; None if nothing is known of it."""
        numbers = [one.number for one in update.gradients]
        for one in update.fake:
            at_d = next((by.flatten(1) for n, by in one.by_input if n in numbers), None)
            for source in (self.passes[n] for n in one.of if n in self.passes):
                at_g = next((seed.flatten(1) for n, seed in source.seeds if n == numbers[-1]), None)
                if at_d is not None and at_g is not None and at_d.shape == at_g.shape:
                    return (at_g * at_d).sum(1) / at_d.square().sum(1)
        return None

    def by_weights(self, one: Gradient) -> bool:
        """Return whether a gradient is by weights, and not by samples or scores, as in a penalty."""
        return not one.functional or bool(one.wrote)

    def is_fake(self, one: NetworkPass) -> bool:
        """Return whether a pass of D looks at samples of G."""
        return bool(self.fakes(one))

    def fakes(self, one: NetworkPass) -> set[int]:
        """Return the passes of G that made what a pass looks at: of a chain of networks, the first."""
        found, todo, known = set(), [*one.of], set()
        while todo:
            number = todo.pop()
            source = self.passes.get(number)
            if source is None or number in known:
                continue
            known.add(number)
            if source.player.role == "D":  # the first of D's networks, where D has several
                todo += source.of
            if source.player.role != "G":
                continue
            before = [n for n in source.of if n in self.passes and self.passes[n].player.role == "G"]
            todo += before
            if not before:
                found.add(number)
        return found

    def only_penalty(self, one: NetworkPass) -> bool:
        """Return whether only a penalty looked at a pass."""
        readers = [g for g in self.gradients.values() if one.number in g.of]
        return bool(readers) and not any(self.by_weights(g) for g in readers)

    def iterations(self) -> list[list[Event]]:
        """Split the events: an iteration ends where the player that began moves again after all others have moved."""
        moved: list[str] = []
        found: list[list[Event]] = []
        current: list[Event] = []
        last = 0
        everyone = {one.player.role for one in self.steps if one.player.role in ("G", "D")}
        for event in self.events:
            if isinstance(event, OptimizerStep) and event.player.role in ("G", "D"):
                role = event.player.role
                if moved and set(moved) == everyone and (len(everyone) == 1 or moved[0] == role != moved[-1]):
                    last = _with_writes(current, last)
                    found.append(current[:last])
                    current, moved = current[last:], []
                moved.append(role)
                current.append(event)
                last = len(current)
            else:
                current.append(event)
        if moved and set(moved) == everyone:
            found.append(current[: _with_writes(current, last)])
        return self._joined(found)

    def _joined(self, found: list[list[Event]]) -> list[list[Event]]:
        """Join an iteration that undoes steps of both players, before it steps, to the look ahead before it.

        Weights that are written more than once were moved ahead by hand, within the iteration.
        """
        joined: list[list[Event]] = []
        for one in found:
            back = [event.player.role for event in one if isinstance(event, Write) and restores(self, one, event)]
            if joined and sorted(back) == ["D", "G"]:
                joined[-1] = joined[-1] + one
            else:
                joined.append(one)
        return joined


def restores(story: Story, events: Sequence[Event], write: Write) -> bool:
    """Return whether weights are put back to copies after a gradient has been taken at other weights in an iteration."""
    before = (isinstance(one, Gradient) and story.place[one] < story.place[write] for one in events)
    after = (isinstance(one, OptimizerStep) and story.place[one] > story.place[write] for one in events)
    return "copy" in write.operation and any(before) and any(after)


def _with_writes(events: Sequence[Event], end: int) -> int:
    """Return where an iteration ends with what is written by hand, and read, directly after its last step."""
    while end < len(events) and isinstance(events[end], AverageWrite | Write | Wait):
        end += 1
    return end
