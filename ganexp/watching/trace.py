"""The trace of a loop: its events, the roles of its players, its iterations, and the passes that each update learns from."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from ganexp.watching.events import AverageWrite, Event, Gradient, NetworkPass, OptimizerStep, Player, Wait, Write
from ganexp.watching.turns import runs_again, turns


@dataclass(eq=False)
class Update:
    """A step of a player, with the passes that its gradients come from."""

    step: OptimizerStep
    gradients: list[Gradient]  # the backward passes whose gradients it moved along
    real: list[NetworkPass]  # D's passes over real samples that these gradients come from
    fake: list[NetworkPass]  # D's passes over fakes that these gradients pass through
    penalties: list[NetworkPass]  # D's passes that only a penalty reads
    generations: list[NetworkPass]  # G's passes that made the fakes

    @property
    def role(self) -> str:
        """The role of the player that moves."""
        return self.step.player.role

    @property
    def regularises(self) -> bool:
        """Whether it is a separate step for a penalty on gradients, as in lazy regularisation."""
        return not self.fake and any(gradient.through for gradient in self.gradients)

    @property
    def latents(self) -> set[int]:
        """The numbers of the latents that the fakes were made from."""
        return {generation.latents for generation in self.generations}

    @property
    def fakes(self) -> set[tuple[object, ...]]:
        """What makes fakes the same: the latents, and the steps that G had made; a pass that draws numbers has its own."""
        return {(p.latents, p.network, p.steps.get(id(p.player.optimizer), 0), p.number * p.drew) for p in self.generations}


class Trace:
    """The events of a loop by number, with the roles of its players."""

    def __init__(self, events: Sequence[Event], players: dict[int, Player]) -> None:
        self.events = events
        self.players = players
        self.passes = {event.number: event for event in events if isinstance(event, NetworkPass)}
        self.gradients = {event.number: event for event in events if isinstance(event, Gradient)}
        self.steps = [event for event in events if isinstance(event, OptimizerStep)]
        self._give_roles()
        self.update = {step: self._update(step) for step in self.steps}

    def _give_roles(self) -> None:
        """Name the players by the flow between their networks: D reads outputs of G, and no other player reads D's.

        An output that goes back to the player that it was computed for does not count: G may read D's features of a fake.
        """
        moving = [*dict.fromkeys([s.player for s in self.steps] + [p.player for p in self.passes.values()])]
        unnamed = [player for player in moving if not player.role]
        of = {network_pass: [self.passes[n] for n in network_pass.of] for network_pass in self.passes.values()}
        gives, reads = set[Player](), set[Player]()
        for network_pass, sources in of.items():
            for source in sources:
                if network_pass.player not in (source.player, *(before.player for before in of[source])):
                    gives.add(source.player)
                    reads.add(network_pass.player)
        for player in unnamed:
            player.role = "G" if player in gives else "D" if player in reads else ""
        together = [player for player in unnamed if player.role == "D" and not self._learns_alone(player)]
        if any(player.role == "D" and player not in together for player in moving):
            for number, player in enumerate(together, 3):  # moves along G's own loss, beside a D
                player.role = f"P{number}"
        if len(unnamed) == 2 and sum(bool(player.role) for player in unnamed) == 1:
            missing = {"G", "D"} - {player.role for player in unnamed}
            (other,) = (player for player in unnamed if not player.role)
            other.role = missing.pop()
        for number, player in enumerate([player for player in moving if not player.role], 3):
            player.role = f"P{number}"

    def _learns_alone(self, player: Player) -> bool:
        """Return whether a player has a gradient of its own that moves no other player."""
        own = {n for step in self.steps if step.player is player for n in step.along}
        others = {n for step in self.steps if step.player is not player for n in step.along}
        return bool(own - others)

    def own(self, step: OptimizerStep) -> frozenset[int]:
        """Return the gradients of a step that no other player and no earlier step of its own used, or all if there are none."""
        role, began = step.player.role, step.position
        others = [o for o in self.steps if o.player.role != role or (o.player is step.player and o.position < began)]
        return step.along.difference(*(step.along for step in others)) or step.along

    def _update(self, step: OptimizerStep) -> Update:
        """Return the update of a step, without the gradients that it should not have moved along."""
        numbers = _with_all_before(self.own(step), lambda n: self.gradients[n].through | self.gradients[n].seeded)
        gradients = [self.gradients[n] for n in sorted(numbers)]
        by_weights = [gradient for gradient in gradients if self.by_weights(gradient)]
        direct = {n for gradient in by_weights for n in gradient.of}
        further = {n for gradient in gradients for n in gradient.of} - direct
        scored = [self.passes[n] for n in sorted(direct) if self.passes[n].player.role == "D"]
        reached = [d_pass for d_pass in scored if any(number in numbers for number, _ in d_pass.seeds)]
        fake = [d_pass for d_pass in reached or scored if self.is_fake(d_pass) and d_pass.graph]  # others are only a target
        return Update(
            step,
            by_weights,
            [d_pass for d_pass in scored if not self.is_fake(d_pass)],
            fake,
            [self.passes[n] for n in sorted(further)],
            [self.passes[n] for n in sorted({n for d_pass in fake for n in self.fakes(d_pass)})],
        )

    def updates(self, events: Sequence[Event]) -> list[Update]:
        """Return the updates of G and of D among some events."""
        return [self.update[event] for event in events if isinstance(event, OptimizerStep) and event.player.role in ("G", "D")]

    def ratio(self, update: Update) -> Tensor | None:
        """Return the factor of each fake's gradient between D and G, `(B,)`; None if it was not recorded."""
        numbers = [gradient.number for gradient in update.gradients]
        for d_pass in update.fake:
            at_d = next((by.flatten(1) for n, by in d_pass.by_input if n in numbers), None)
            for source in (self.passes[n] for n in d_pass.of):
                at_g = next((seed.flatten(1) for n, seed in source.seeds if n == numbers[-1]), None)
                if at_d is not None and at_g is not None and at_d.shape == at_g.shape:
                    return (at_g * at_d).sum(1) / at_d.square().sum(1)
        return None

    def by_weights(self, gradient: Gradient) -> bool:
        """Return whether a gradient is with respect to weights, rather than samples or scores, as in a penalty."""
        return not gradient.functional or bool(gradient.wrote)

    def is_fake(self, network_pass: NetworkPass) -> bool:
        """Return whether the inputs of a pass come from G."""
        return bool(self.fakes(network_pass))

    def fakes(self, network_pass: NetworkPass) -> set[int]:
        """Return the passes of G that a pass's inputs come from: where G is a chain of networks, those of its first."""

        def before(number: int) -> list[int]:
            source = self.passes[number]
            if source.player.role == "D":  # the first of D's networks, where D has several
                return [*source.of]
            return [n for n in source.of if source.player.role == self.passes[n].player.role == "G"]

        sources = _with_all_before(network_pass.of, before)
        return {n for n in sources if self.passes[n].player.role == "G" and not before(n)}

    def sources(self, numbers: Iterable[int]) -> list[NetworkPass]:
        """Return these passes and all those that their inputs come from."""
        return [self.passes[n] for n in _with_all_before(numbers, lambda n: self.passes[n].of)]

    @cached_property
    def read(self) -> set[NetworkPass]:
        """The passes that some gradient reads: those in its loss, and those whose outputs they are given."""
        return {*self.sources(n for gradient in self.gradients.values() for n in gradient.of)}

    def only_penalty(self, network_pass: NetworkPass) -> bool:
        """Return whether only a penalty reads a pass."""
        readers = [g for g in self.gradients.values() if network_pass.number in g.of]
        return bool(readers) and not any(self.by_weights(g) for g in readers)

    def iterations(self) -> list[list[Event]]:
        """Split the events into the turns of the loop; those before its first whole turn belong to none."""
        return [[*self.events[slice(*bounds)]] for bounds in self._bounds]

    @cached_property
    def alone(self) -> list[OptimizerStep]:
        """The steps before the first turn, of a player that begins before the other."""
        first = self._bounds[0][0] if self._bounds else 0
        return [step for step in self._main if step.position < first]

    @property
    def _main(self) -> list[OptimizerStep]:
        return [step for step in self.steps if step.player.role in ("G", "D")]

    @cached_property
    def _bounds(self) -> list[tuple[int, int]]:
        """The first and the last event of each turn, for slices."""
        parts = turns(self._main)
        bounds: list[tuple[int, int]] = []
        first = self._main.index(parts[0][0]) if parts else 0
        begun = self._with_writes(self._main[first - 1].position + 1) if first else 0
        for steps in parts:
            end = self._with_writes(self._with_others(steps[-1]).position + 1)
            if bounds and self._undoes(begun, end):
                bounds[-1] = bounds[-1][0], end
            else:
                bounds.append((begun, end))
            begun = end
        return bounds

    def _undoes(self, begun: int, end: int) -> bool:
        """Return whether a turn begins by undoing steps of both players, so that the one before it was a look ahead.

        Weights that are written more than once in an iteration were moved ahead by hand within it.
        """
        events = self.events[begun:end]
        back = [event.player.role for event in events if isinstance(event, Write) and restores(events, event)]
        return sorted(back) == ["D", "G"]

    def _with_others(self, last: OptimizerStep) -> OptimizerStep:
        """Return the last step of a third player that follows the last step of a turn in its code."""
        for step in self.steps[self.steps.index(last) + 1 :]:
            if step.player.role in ("G", "D") or runs_again(last.reached, step.reached):
                break
            last = step
        return last

    def _with_writes(self, end: int) -> int:
        """Return the end of a turn whose last step is followed by writes to weights and waits."""
        while end < len(self.events) and isinstance(self.events[end], AverageWrite | Write | Wait):
            end += 1
        return end


def _with_all_before(numbers: Iterable[int], before: Callable[[int], Iterable[int]]) -> set[int]:
    """Return numbers, those before each of them, those before these, and so on."""
    todo, reached = [*numbers], set[int]()
    while todo:
        number = todo.pop()
        if number not in reached:
            reached.add(number)
            todo += before(number)
    return reached


def restores(events: Sequence[Event], write: Write) -> bool:
    """Return whether a write puts weights back to copies, after a gradient was taken at other weights in the iteration."""
    before = (isinstance(event, Gradient) and event.position < write.position for event in events)
    after = (isinstance(event, OptimizerStep) and event.position > write.position for event in events)
    return "copy" in write.operation and any(before) and any(after)
