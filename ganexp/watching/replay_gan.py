"""A GAN made of a watched loop's own networks and optimisers, put back to the beginning of a turn, which replays its batches.

It moves the weights of the loop itself, so it is used only where nothing of the loop follows: see `ganexp.watching.isolation`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from ganexp.batch import Batch, Gradients, Objective
from ganexp.gan import GAN
from ganexp.instruments.counting import key
from ganexp.losses import Loss
from ganexp.prior import Prior
from ganexp.watching.events import Event, NetworkPass
from ganexp.watching.recorder import Recorder
from ganexp.watching.snapshots import State
from ganexp.watching.trace import Trace, Update


@dataclass
class KeptTurns:
    """Turns of a loop between which its states were kept."""

    trace: Trace
    not_repeatable: str  # why a replay of the same batches would differ; empty if it would not
    events: list[Event]  # of all turns
    updates: list[list[Update]]  # of each turn
    start: State  # before the first turn
    ends: list[State]  # after each turn

    @classmethod
    def of(cls, recorder: Recorder, trace: Trace, turns: Sequence[Sequence[Event]]) -> "KeptTurns | None":
        """Return these turns, which follow each other; None if not all of their states were kept."""
        updates = [trace.updates(turn) for turn in turns]
        steps = [step.position for step in trace.steps]
        learnt = [p.position for update in updates[0] for p in update.generations + update.real + update.fake]
        begins = updates[0][0].step.position
        states = [recorder.snapshots.before(max((s for s in steps if s < begins), default=-1), min([*learnt, begins]))]
        for last in (max(update.step.position for update in turn) for turn in updates):
            following = min((step for step in steps if step > last), default=len(trace.events))
            states.append(recorder.snapshots.before(last, following))
        kept = [state for state in states if state is not None]
        if len(kept) < len(states):
            return None
        return cls(trace, recorder.not_repeatable, [event for turn in turns for event in turn], updates, kept[0], kept[1:])

    @property
    def all_updates(self) -> list[Update]:
        """The updates of all turns."""
        return [update for turn in self.updates for update in turn]

    @property
    def why_random(self) -> str:
        """Why a pass may give other outputs where it is repeated; empty if no network draws random numbers."""
        drew = any(p.drew for update in self.all_updates for p in update.generations + update.real + update.fake)
        return "a network draws random numbers, as dropout does" if drew else ""

    def network(self, role: str) -> nn.Module:
        """Return G or D."""
        passes = (p for update in self.all_updates for p in (update.generations if role == "G" else update.fake))
        return next(passes).network

    def optimizers(self, role: str) -> list[Optimizer]:
        """Return the optimisers that move a player in these turns."""
        moving = (update.step.player.optimizer for update in self.all_updates if update.role == role)
        return [*{id(optimizer): optimizer for optimizer in moving if optimizer is not None}.values()]


class ReplayGAN(GAN):
    """A GAN that generates from the inputs that a loop's generator was given. Its latents are indices of batches of fakes.

    Args:
        generations: For each batch of latents, G's passes over it.
        scored: For each of these batches, D's passes over its fakes.
        real: D's passes over each real batch, by the address of its values.
        clamp: Bounds of D's weights, if the loop clips them.
    """

    def __init__(
        self,
        *args: Any,
        generations: list[list[NetworkPass]],
        scored: list[list[NetworkPass]],
        real: dict[int, list[NetworkPass]],
        clamp: tuple[Any, ...],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.generations, self.scored, self.real, self.clamp, self.sampled = generations, scored, real, clamp, 0
        self._made: dict[int, tuple[Tensor, list[NetworkPass]]] = {}

    def sample(self) -> Batch:
        """Return the index of the loop's next batch of latents."""
        self.sampled += 1
        return Batch(torch.tensor([self.sampled - 1]))

    def generate(self, z: Batch) -> Batch:
        """Generate from the arguments of the loop's passes of this index."""
        index = int(z.values)
        passes = self.generations[index]
        with _next(passes):
            fake = self.generator(*passes[0].arguments)
        self._made[key(fake)] = fake, self.scored[index]  # it is kept, so that its address is not used again
        return Batch(fake, self.scored[index][0].arguments[1:])

    def score(self, batch: Batch, discriminator: Any) -> Tensor:
        """Score a batch. Scores of any shape are flattened."""
        place = key(batch.values)
        with _next(self._made[place][1] if place in self._made else self.real.get(place, [])):
            scores: Tensor = discriminator(batch.values, *batch.conditions)
        return scores.flatten()

    def move_d(self, gradients: Gradients) -> Gradients:
        """Move D, and clip its weights as the loop does."""
        gradients = super().move_d(gradients)
        if self.clamp:
            with torch.no_grad():
                for p in self.d_parameters:
                    p.clamp_(*self.clamp)
        return gradients

    def _d_objective(self, x: Batch, fake: Batch, real_scores: Tensor, fake_scores: Tensor) -> Objective:
        return Objective(self.loss.d_loss(real_scores, fake_scores), real_scores, fake_scores)

    def _record_d(self, d: Objective, gradients: Gradients) -> None:
        pass

    def _record_g(self, g: Objective, gradients: Gradients) -> None:
        pass


@contextmanager
def _next(passes: list[NetworkPass]) -> Iterator[None]:
    """Give a network the modes and the random numbers of the next of the loop's passes over a batch, or of the last."""
    this = passes[0] if passes else None
    with this.before.again(drew=this.drew) if this else nullcontext():
        yield
    if len(passes) > 1:
        del passes[0]


def replay_gan(
    turns: KeptTurns, loss: Loss, *, clamp: tuple[Any, ...] = (), plain: bool = False, repeats: int = 1
) -> tuple[ReplayGAN, list[Batch]]:
    """Return a GAN in the state before some turns of a loop, and the real batches of their updates.

    With `plain`, both networks move by gradient descent instead of the loop's optimisers. All latents come `repeats` times.
    """
    generations: dict[int, list[NetworkPass]] = {}
    scored: dict[int, list[NetworkPass]] = {}
    real: dict[int, list[NetworkPass]] = {}
    for update in turns.all_updates:
        for network_pass in update.real:
            real.setdefault(network_pass.first, []).append(network_pass)
        for network_pass in update.fake:
            for generation in (turns.trace.passes[n] for n in sorted(turns.trace.fakes(network_pass))):
                known = generations.setdefault(generation.latents, [])
                known += [generation] * (generation not in known)
                scored.setdefault(generation.latents, []).append(network_pass)
    networks = [turns.network(role) for role in "GD"]
    used = [turns.optimizers(role) for role in "GD"]
    turns.start.put_back(networks, [optimizer for both in used for optimizer in both])
    for network in networks:  # some loops freeze D in G's step
        passes = [passed for group in (*generations.values(), *scored.values(), *real.values()) for passed in group]
        learns = [passed.before.learns for passed in passes if passed.network is network]
        for p, flags in zip(network.parameters(), zip(*learns, strict=True), strict=True):
            p.requires_grad_(any(flags))
    if plain:
        used = [[SGD([p for p in network.parameters() if p.requires_grad], 1e-3)] for network in networks]
    reals = [Batch(passes[0].arguments[0], passes[0].arguments[1:]) for passes in real.values()]
    gan = ReplayGAN(
        *(*networks, loss, *(optimizers[0] for optimizers in used), Prior(1)),
        generations=[[*passes] for passes in generations.values()] * repeats,
        scored=[[*scored[latents]] for latents in generations] * repeats,
        real={key(batch.values): [*passes] for batch, passes in zip(reals, real.values(), strict=True)},
        clamp=clamp,
    )
    return gan, reals


def why_not_replayable(trace: Trace, turns: KeptTurns | None) -> str:
    """Return why a loop's batches cannot be replayed with other strategies; empty if they can."""
    main = [step for step in trace.steps if step.player.role in ("G", "D")]
    owned = set[int]().union(*(step.player.ids for step in main))
    for step in trace.steps:
        if step not in main and owned & step.player.ids and step.position > main[0].position:
            return f"a third optimiser moves the same weights, at {step.place}"
    if turns is None:
        return "its state before these iterations was not kept"
    if any(len(turns.optimizers(role)) != 1 for role in "DG") or any(
        len({p.network for p in trace.passes.values() if p.player.role == role}) != 1 for role in "DG"
    ):
        return "a player has several networks or optimisers"
    for update in turns.all_updates:
        if any(not trace.by_weights(trace.gradients[n]) for g in update.gradients for n in g.through) or update.penalties:
            return f"{update.role} has a penalty, which is not recomputed"
        if any(p.before is None for p in update.fake + update.real + update.generations):
            return "its batches were not kept"
        if any(p.mixed or not any(p.first in trace.passes[n].outputs for n in p.of) for p in update.fake):
            return "what D scores is not the very batch that G made"
    return ""
