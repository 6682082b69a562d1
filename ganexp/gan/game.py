"""The game: two networks and their objectives, with the verbs that form quantities and move nothing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from ganexp.augmentations import Augmentation, NoAugmentation
from ganexp.batch import Batch, Objective, scores_of
from ganexp.distributed.processes import Processes
from ganexp.gan.field import refuse_once_differentiable
from ganexp.gan.packing import packed
from ganexp.gan.passes import Passes
from ganexp.instruments.timer import timer_for
from ganexp.losses import Loss
from ganexp.penalties import NoPenalty, Penalty
from ganexp.prior import Prior


class Game:
    """What both players see: samples, scores and objectives. Nothing here changes a network or is recorded.

    The arguments are those of `GAN`, which adds the players' moves.
    """

    def __init__(
        self,
        generator: nn.Module,
        discriminator: nn.Module,
        loss: Loss,
        prior: Prior,
        *,
        batch_size: int,
        pack: int,
        penalty: Penalty | None,
        augment: Augmentation | None,
        autocast: torch.dtype | None,
        accumulate: int,
        processes: Processes | None,
    ) -> None:
        self.generator = generator
        self.discriminator = discriminator
        self.loss = loss
        self.prior = prior
        self.processes = processes or Processes()
        if batch_size % (self.processes.count * pack) and self.processes.count > 1:
            whole = self.processes.count * pack
            raise ValueError(
                f"batch_size={batch_size} cannot be shared equally among {self.processes.count} processes: choose a multiple "
                f"of {whole}, such as {whole * -(-batch_size // whole)}"
            )
        self.batch_size = batch_size
        self.pack = pack
        self.penalty = penalty or NoPenalty()
        self.penalty.begin(prior.seed, prior.device)
        self.penalty.share_among(self.processes)
        self.augment = augment or NoAugmentation()
        self.augment.begin(prior.seed, prior.device, pack)
        self.augment.processes = self.processes
        self.timer = timer_for(prior.device)
        self._looked_at: set[str] = set()
        self._passes = Passes(autocast, accumulate, further=loss.reads)

    def phase(self, network: str) -> AbstractContextManager[None]:
        """Count the time that is spent inside as that of `d` or `g`."""
        return self.timer.phase(network)

    def sample(self) -> Batch:
        """Draw a batch of latents, `(B, latent_dim)`; of several processes each gets its share."""
        return self.processes.own(self.prior.sample(self.batch_size))

    def generate(self, z: Batch) -> Batch:
        """Generate a batch from latents, under their conditions, packed."""
        with self.phase("g"):
            return self.packed(self._passes.generate(self.generator, Batch.of(z)))

    def packed(self, batch: Batch) -> Batch:
        """Return a batch as D judges it, by packs of samples; what strategies get of the data has gone through here."""
        return packed(batch, self.pack)

    def score_real(self, x: Batch) -> Tensor:
        """Score real samples, as `score` does."""
        return self.score(x, self.discriminator)

    def score_fake(self, fake: Batch) -> Tensor:
        """Score generated samples, as `score` does."""
        return self.score(fake, self.discriminator)

    def score(self, batch: Batch, discriminator: Callable[..., Tensor]) -> Tensor:
        """Score a batch, augmented, by D, or by any other discriminator: `(B,)`, or `(B, 1 + k)` with what else the loss reads.

        Raises:
            ValueError: There is not one score per sample, or not what the loss reads.
        """
        return self.processes.gather(self._passes.score(discriminator, self.augment(Batch.of(batch))))

    def judge(self, batch: Batch) -> Tensor:
        """Return D's scores of samples as they are, neither augmented nor gathered from other processes, one for each pack."""
        return scores_of(self._passes.score(self.discriminator, self.packed(batch)))

    def penalty_term(self, discriminator: Callable[..., Tensor], x: Batch, fake: Batch) -> Tensor | None:
        """Form the penalty on D, or on any other discriminator, as a function of samples that are still to be augmented."""
        return self.penalty.term(self.augment.before(discriminator), x, fake)

    def shown_to_d(self, fake: Batch) -> Batch:
        """Return the fakes that D's objective is formed on: those at hand, or what a wrapper shows in their place."""
        return fake

    def d_loss(self, x: Batch, fake: Batch) -> Objective:
        """Form D's objective on real and generated samples, penalty included."""
        with self.phase("d"):
            fake = self.shown_to_d(fake)
            return self._d_objective(x, fake.detach(), self.score_real(x), self.score_fake(fake))

    def g_loss(self, x: Batch | None, fake: Batch) -> Objective:
        """Form G's objective; `x` is looked at only if the loss compares with real scores, and may else be None."""
        with self.phase("g"):
            real_scores = None
            if self.loss.g_needs_real:
                if x is None:
                    raise ValueError(f"{type(self.loss).__name__}'s generator loss needs a real batch")
                with torch.no_grad():
                    real_scores = self.score_real(x)
            fake_scores = self.score_fake(fake)
            return Objective(self.loss.g_loss(real_scores, fake_scores), real_scores, fake_scores)

    def losses(self, x: Batch, fake: Batch) -> tuple[Objective, Objective]:
        """Form both objectives from one scoring of each batch; where D is shown other fakes, from one of either's."""
        with self.phase("d"):
            shown = self.shown_to_d(fake)
            real_scores, fake_scores = self.score_real(x), self.score_fake(shown)
            d = self._d_objective(x, shown.detach(), real_scores, fake_scores)
        with self.phase("g"):
            real_scores = real_scores.detach()
            if shown is not fake:
                fake_scores = self.score_fake(fake)
            return d, Objective(self.loss.g_loss(real_scores, fake_scores), real_scores, fake_scores)

    def losses_of_both(self, x: Batch, fake: Batch) -> tuple[Objective, Objective]:
        """Form both objectives as functions of both networks, for `field`: what `losses` takes as constants keeps its graph.

        These are the fakes that a penalty looks at, and the real scores that G's loss compares with.
        """
        with self.phase("d"):
            real_scores, fake_scores = self.score_real(x), self.score_fake(fake)
            d = self._d_objective(x, fake, real_scores, fake_scores)
        with self.phase("g"):
            return d, Objective(self.loss.g_loss(real_scores, fake_scores), real_scores, fake_scores)

    def need_second_derivatives(self, purpose: str, made: Sequence[Tensor | None]) -> None:
        """Refuse layers that give none in silence, by the graph of what was made of gradients; each purpose looks once.

        Raises:
            ValueError: There is such a layer.
        """
        if purpose not in self._looked_at:
            refuse_once_differentiable(made)
            self._looked_at.add(purpose)

    def reals_for_g(self, reals: Iterator[Batch]) -> Batch | None:
        """Draw a real batch for a generator update of its own, or None where the loss has no use for it."""
        return next(reals) if self.loss.g_needs_real else None

    def _d_objective(self, x: Batch, fake: Batch, real_scores: Tensor, fake_scores: Tensor) -> Objective:
        loss = self.loss.d_loss(real_scores, fake_scores)
        penalty = self.penalty_term(self.discriminator, x, fake)
        if penalty is not None and self.penalty.differentiates_gradients:
            self.need_second_derivatives("penalty", [penalty])
        if penalty is not None and len(x) != len(real_scores):
            penalty = self.processes.gather((penalty * (len(x) / len(real_scores))).view(1)).sum()  # that of the global batch
        return Objective(loss, real_scores, fake_scores, penalty)
