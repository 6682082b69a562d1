"""A loop's own networks, optimisers, latents and real samples, as a GAN that ganexp's strategies train."""

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
from ganexp.watching.iterations import Story, Update
from ganexp.watching.recorder import Recorder


class Again(GAN):
    """A GAN that is given again what a loop has drawn. Latents are numbers of passes of G.

    Args:
        drawn: Passes of G, one for each latents, in their order; what D was given beside what they made is in `beside`.
        beside: Further arguments of D for each of them.
        clamp: Bounds of D's weights, if the loop clips them.
    """

    def __init__(
        self, *args: Any, drawn: list[NetworkPass], beside: list[tuple[Any, ...]], clamp: tuple[Any, ...], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.drawn, self.beside, self.clamp, self.turn = drawn, beside, clamp, 0

    def sample(self) -> Batch:
        """Return the number of the next latents that the loop drew."""
        self.turn += 1
        return Batch(torch.tensor([self.turn - 1]))

    def generate(self, z: Batch) -> Batch:
        """Generate from what the loop's generator was given."""
        number = int(z.values)
        return Batch(self.generator(*self.drawn[number].given), self.beside[number])

    def score(self, batch: Batch, discriminator: Any) -> Tensor:
        """Score a batch, in any shape of scores, flattened."""
        scores: Tensor = discriminator(*(one.values if isinstance(one, Batch) else one for one in (batch, *batch.conditions)))
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


def again(
    recorder: Recorder,
    story: Story,
    updates: Sequence[Update],
    loss: Loss,
    *,
    clamp: tuple[Any, ...] = (),
    plain: bool = False,
) -> tuple[Again, list[Batch]]:
    """Return a GAN made of copies of a loop's networks before its first pass, and the real batches that updates learnt from.

    With `plain`, both networks move by gradient descent, and not by the loop's optimisers.
    """
    drawn: dict[int, tuple[NetworkPass, tuple[Any, ...]]] = {}
    reals: dict[int, Batch] = {}
    for update in updates:
        for one in update.real:
            reals.setdefault(one.first, Batch(one.given[0], one.given[1:]))
        for one in update.fake:
            for n in sorted(story.fakes(one)):
                drawn.setdefault(story.passes[n].latents, (story.passes[n], one.given[1:]))
    made, beside = zip(*drawn.values(), strict=True)
    scored = next(one.fake[0] for one in updates if one.fake)
    pairs = [copy.deepcopy(recorder.snapshots.copies[one.network]) for one in (made[0], scored)]
    (net_g, opt_g), (net_d, opt_d) = pairs  # type: ignore[misc]
    for p in (p for optimizer in (opt_g, opt_d) for group in optimizer.param_groups for p in group["params"]):
        p.requires_grad_(True)  # some loops freeze D in G's step
    if plain:
        opt_g, opt_d = (SGD(one.parameters(), 1e-3) for one in (net_g, net_d))
    gan = Again(
        *(net_g, net_d, loss, opt_g, opt_d, Prior(1)),
        drawn=[*made],
        beside=[*beside],
        clamp=clamp,
        batch_size=len(made[0].given[0]),
    )
    return gan, [*reals.values()]


def unfit(recorder: Recorder, story: Story, updates: Sequence[Update]) -> str:
    """Return why strategies cannot be run again on what a loop has drawn; empty if they can."""
    if None in recorder.snapshots.copies.values():
        return "its networks or optimisers cannot be copied"
    if len({id(one.step.player) for one in updates}) != 2 or any(
        len({p.network for p in story.passes.values() if p.player.role == role}) != 1 for role in "DG"
    ):
        return "a player has several networks or optimisers"
    for one in updates:
        if any(not story.by_weights(story.gradients[n]) for g in one.gradients for n in g.through) or one.penalties:
            return f"{one.role} has a penalty, which is not recomputed"
        if any(not p.given for p in one.fake + one.real + one.made):
            return "its first iteration is too long"
        if any(p.mixed or not any(p.first in story.passes[n].made for n in p.of) for p in one.fake):
            return "what D scores is not the very batch that G made"
    return ""
