"""A GAN made of copies of a watched loop's networks and optimisers, which replays the batches that the loop drew."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD

from ganexp.batch import Batch, Gradients, Objective
from ganexp.gan import GAN
from ganexp.losses import Loss
from ganexp.prior import Prior
from ganexp.watching.events import NetworkPass
from ganexp.watching.recorder import Recorder
from ganexp.watching.trace import Trace, Update


class ReplayGAN(GAN):
    """A GAN that generates from the inputs that a loop's generator was given. Its latents are indices of passes of G.

    Args:
        generations: The loop's passes of G, one for each batch of latents, in their order.
        conditions: The arguments that D was given besides the fakes of each of these passes.
        clamp: Bounds of D's weights, if the loop clips them.
    """

    def __init__(
        self,
        *args: Any,
        generations: list[NetworkPass],
        conditions: list[tuple[Any, ...]],
        clamp: tuple[Any, ...],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.generations, self.conditions, self.clamp, self.sampled = generations, conditions, clamp, 0

    def sample(self) -> Batch:
        """Return the index of the loop's next batch of latents."""
        self.sampled += 1
        return Batch(torch.tensor([self.sampled - 1]))

    def generate(self, z: Batch) -> Batch:
        """Generate from the arguments of the loop's pass of this index."""
        index = int(z.values)
        return Batch(self.generator(*self.generations[index].arguments), self.conditions[index])

    def score(self, batch: Batch, discriminator: Any) -> Tensor:
        """Score a batch. Scores of any shape are flattened."""
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


def replay_gan(
    recorder: Recorder,
    trace: Trace,
    updates: Sequence[Update],
    loss: Loss,
    *,
    clamp: tuple[Any, ...] = (),
    plain: bool = False,
) -> tuple[ReplayGAN, list[Batch]]:
    """Return a GAN made of copies of a loop's networks before its first pass, and the real batches of its updates.

    With `plain`, both networks move by gradient descent instead of the loop's optimisers.
    """
    generations: dict[int, tuple[NetworkPass, tuple[Any, ...]]] = {}
    reals: dict[int, Batch] = {}
    for update in updates:
        for scored in update.real:
            reals.setdefault(scored.first, Batch(scored.arguments[0], scored.arguments[1:]))
        for scored in update.fake:
            for n in sorted(trace.fakes(scored)):
                generations.setdefault(trace.passes[n].latents, (trace.passes[n], scored.arguments[1:]))
    passes, conditions = zip(*generations.values(), strict=True)
    d_pass = next(update.fake[0] for update in updates if update.fake)
    copies = [copy.deepcopy(recorder.snapshots.copies[network_pass.network]) for network_pass in (passes[0], d_pass)]
    (net_g, opt_g), (net_d, opt_d) = copies  # type: ignore[misc]
    for p in (p for optimizer in (opt_g, opt_d) for group in optimizer.param_groups for p in group["params"]):
        p.requires_grad_(True)  # some loops freeze D in G's step
    if plain:
        opt_g, opt_d = (SGD(network.parameters(), 1e-3) for network in (net_g, net_d))
    gan = ReplayGAN(
        *(net_g, net_d, loss, opt_g, opt_d, Prior(1)),
        generations=[*passes],
        conditions=[*conditions],
        clamp=clamp,
        batch_size=len(passes[0].arguments[0]),
    )
    return gan, [*reals.values()]


def why_not_replayable(recorder: Recorder, trace: Trace, updates: Sequence[Update]) -> str:
    """Return why a loop's batches cannot be replayed with other strategies; empty if they can."""
    if None in recorder.snapshots.copies.values():
        return "its networks or optimisers cannot be copied"
    if len({id(update.step.player) for update in updates}) != 2 or any(
        len({p.network for p in trace.passes.values() if p.player.role == role}) != 1 for role in "DG"
    ):
        return "a player has several networks or optimisers"
    for update in updates:
        if any(not trace.by_weights(trace.gradients[n]) for g in update.gradients for n in g.through) or update.penalties:
            return f"{update.role} has a penalty, which is not recomputed"
        if any(not p.arguments for p in update.fake + update.real + update.generations):
            return "its first iteration is too long"
        if any(p.mixed or not any(p.first in trace.passes[n].outputs for n in p.of) for p in update.fake):
            return "what D scores is not the very batch that G made"
    return ""
