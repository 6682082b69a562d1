"""The contract of a penalty."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ganexp.batch import Batch, Discriminator, flat, scores_of
from ganexp.distributed.processes import Processes
from ganexp.facts import Facts, Misfit, Part
from ganexp.streams import Drawing

Demand = Literal["gradient norm 0", "gradient norm 1", "gradient norm up to 1", "small weights"]
"""A demand on the norm of D's gradient, or on D's weights, which another penalty might contradict."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The scores of D's loss, and functions that compute further fakes and scores.

    Args:
        real_scores, fake_scores: D's scores of the samples that the penalty is given, `(B,)` or `(B, S)`, with their graph.
        generate: Maps latents, under their conditions, to samples as D scores them, in the precision of the loss's own fakes.
        score: Maps such samples to scores, `(B,)`, as those of the loss were computed: after the augmentation, and in the same
            precision. Scores that are compared with `real_scores` or `fake_scores` come from here.
    """

    real_scores: Tensor
    fake_scores: Tensor
    generate: Callable[[Batch], Batch]
    score: Callable[[Batch], Tensor]


class Penalty(Drawing, Part):
    """A further term of D's loss or of G's, or a constraint on D's weights.

    By default its methods do nothing, so that any penalty can be combined with any loss.
    """

    on_device: ClassVar = {"weight": None}

    weight: float | Tensor = 1.0
    """The factor of the mean of the samples' values."""

    needs_logits = False
    """Whether the penalty has a meaning only for a discriminator that returns logits."""

    demands: frozenset[Demand] = frozenset()
    """Its demands on D; some exclude each other."""

    differentiates_gradients = False
    """Whether its own gradient is the gradient of a gradient, which compiled networks cannot compute."""

    reads_scores = False
    """Whether it reads the scores of D's loss, and so depends on G as that loss does."""

    keeps_count = False
    """Whether it has counts on the host besides `turn`, so that iterations cannot be recorded as CUDA graphs."""

    gathers = False
    """Whether gradients flow through `gather`, as for an augmentation."""

    processes = Processes()
    """The processes that train together."""

    def check(self, run: Facts) -> None:
        super().check(run)
        if self.needs_logits and run.scores not in ("logit", ""):
            raise Misfit(
                f"needs a discriminator that returns logit scores, and this one returns {run.scores} scores", penalty=[]
            )
        if self.differentiates_gradients:
            run.refuse_second_derivatives("discriminator")
        if self.needs_logits and run.batch_norm:
            run.warn("is meant for a discriminator without batch norm")

    def share_among(self, processes: Processes) -> None:
        """Set the processes that train together; called once, by the GAN."""
        self.processes = processes

    def begin(self, seed: int, device: torch.device) -> None:
        """Seed the random stream, if it has one; called once, by the GAN."""

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor | None:
        """Return one value per sample, `(B,)`, whose weighted mean is added to D's loss, or None for nothing.

        A penalty on D's weights returns a scalar. `fake` carries a graph only where D's objective is a function of G as well.
        """
        if type(self).compared is Penalty.compared:
            return None
        score = partial(scored, discriminator)
        return self.compared(discriminator, x, fake, Seen(score(x), score(fake), _no_samples, score))

    def compared(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen) -> Tensor | None:
        """Return the same, for penalties that also read the scores of D's loss, or generate further fakes.

        Without a loss, `__call__` computes the scores.
        """
        return self(discriminator, x, fake)

    def term(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen | None = None) -> Tensor | None:
        """Return the weighted mean, a scalar, or None for nothing; without `seen`, from the samples alone."""
        x, fake = Batch.of(x), Batch.of(fake)
        values = self(discriminator, x, fake) if seen is None else self.compared(discriminator, x, fake, seen)
        return None if values is None else self.weight * values.mean()

    def g_term(self, generator: nn.Module, fake: Batch, generate: Callable[[Batch], Batch]) -> Tensor | None:
        """Return a further term of G's loss, a scalar, or None for nothing.

        Args:
            generator: The network.
            fake: The samples that G's objective is formed on, with their graph, packed.
            generate: As in `Seen`.
        """
        return None

    def constrain(self, discriminator: nn.Module) -> None:
        """Enforce a constraint on D's weights; called after each update of D."""

    def advance(self, real_scores: Tensor, fake_scores: Tensor) -> None:
        """Update the penalty's own state, if it has any; called after each update of D, but not after a look-ahead step.

        Args:
            real_scores: The update's scores of the global batch, `(B,)`, each the mean over its places, without a graph.
            fake_scores: Likewise.
        """

    def advance_g(self) -> None:
        """Update the state of its term of G's loss; called likewise after each update of G."""


class NoPenalty(Penalty):
    """No penalty."""

    def term(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen | None = None) -> None:
        return None


def scored(discriminator: Discriminator, batch: Batch) -> Tensor:
    """Return the scores of a batch, `(B,)`, or `(B, S)` where D scores S places of each sample."""
    return scores_of(flat(discriminator(batch.values, *batch.conditions)))


def evenly_spread(count: int, n: int, device: torch.device) -> Tensor:
    """Return `count` indices below n, evenly spread, so that several processes use the same samples as one process."""
    return torch.arange(count, device=device) * n // count


def _no_samples(z: Batch) -> Batch:
    raise ValueError("this penalty generates fakes: take its term from GAN.penalty_term, with the scores of D's loss")
