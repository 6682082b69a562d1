"""The GAN: how its objectives are formed from networks, a loss, a penalty and terms."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ganexp.augmentations import Augmentation, NoAugmentation
from ganexp.batch import Batch, Discriminator, Gradients, Objective, per_sample, scores_of
from ganexp.distributed.processes import Processes
from ganexp.gan.field import Field
from ganexp.gan.game import Game, scalar
from ganexp.gan.packing import packed
from ganexp.gan.passes import Passes, ends_in_sigmoid
from ganexp.losses import Loss
from ganexp.losses.heads import over_heads
from ganexp.penalties import NoPenalty, Penalty, Seen
from ganexp.prior import Prior
from ganexp.terms import ADVERSARIAL, Balance, Generated, Term
from ganexp.terms.balance import compared_gradients, times

log = logging.getLogger(__name__)


class GAN(Game):
    """A game whose objectives are formed from two networks, a loss, a latent prior, a penalty and terms.

    Where a batch is expected, a plain tensor is one without conditions.

    Args:
        generator: Maps latents `(B, latent_dim)` to a batch shaped like the real one, never a view of its parameters, which G's
            own step would change. With sources from the data, it maps these instead.
        discriminator: Maps a batch to scores `(B,)`, one per sample; to a map of scores, `(B, 1, …)`, one for each of several
            places of a sample; or to `(B, 1 + k)` with k further numbers after each score, if the loss reads them. Where its
            attribute `reads_source` is true, it is called `D(samples, sources)`.
        loss: The two objectives, as functions of scores.
        optimizer_g, optimizer_d: Optimisers over the parameters of one network each.
        prior: Where latents come from, or sources: `ganexp.prior.Prior`, `ganexp.sources.Sources`.
        batch_size: Number of latents in a batch of all processes.
        g_batch: Number of latents in a batch that only G learns from; by default `batch_size`.
        pack: Number of samples that D scores together (PacGAN). Batches that a strategy sees, real and generated, then hold
            batch_size/pack packs, and D, losses and penalties treat each pack as one sample, with one score.
        penalty: A further term of D's loss or of G's, or a constraint on D's weights.
        augment: A random transformation of everything that D scores.
        redundant_gradients: Compute in every backward pass the gradients of both networks, as textbook loops do, and discard
            those of the other network. Changes the cost, never the result.
        autocast: Run the networks' matrix products and convolutions in this narrower type (mixed precision). Parameters,
            samples, scores, losses, penalties and optimisers keep the networks' own; a penalty that compares with the loss's
            scores takes its further ones from the same narrower passes.
        clip_gradients: Shorten the gradient of each network, summed over processes, to this norm where it is longer.
        accumulate: Pass each batch through a network in this many parts, each recomputed in the backward pass, so that memory
            is that of one part. Penalties see the whole batch, and pass it through D likewise, unless D draws random numbers.
        processes: The processes that train this GAN together; by default this one alone.
        terms: Further terms of G's objective, by name.
        balance: How much G's loss counts beside them.
        term_gradients: Measure the gradients of G's loss and terms at its output, where gradient norms are read.
    """

    def __init__(
        self,
        generator: nn.Module,
        discriminator: nn.Module,
        loss: Loss,
        optimizer_g: Optimizer,
        optimizer_d: Optimizer,
        prior: Prior,
        *,
        batch_size: int = 64,
        g_batch: int | None = None,
        pack: int = 1,
        penalty: Penalty | None = None,
        augment: Augmentation | None = None,
        redundant_gradients: bool = False,
        autocast: torch.dtype | None = None,
        clip_gradients: float | None = None,
        accumulate: int = 1,
        processes: Processes | None = None,
        terms: Mapping[str, Term] | None = None,
        balance: Balance | None = None,
        term_gradients: bool = False,
    ) -> None:
        self._begin(generator, discriminator, optimizer_g, optimizer_d, clip_gradients, prior.device)
        self.loss = over_heads(loss, getattr(discriminator, "heads", ()))
        self.prior = prior
        self.processes = processes or Processes()
        self.batch_size = batch_size
        self.g_batch = batch_size if g_batch is None else g_batch
        whole = self.processes.count * pack
        for name, size in {"batch_size": self.batch_size, "g_batch": self.g_batch}.items():
            if size % whole and self.processes.count > 1:
                raise ValueError(
                    f"{name}={size} cannot be shared equally among {self.processes.count} processes: choose a multiple of "
                    f"{whole}, such as {whole * -(-size // whole)}"
                )
        self.pack = pack
        self.terms = dict(terms or {})
        self.balance = balance or Balance()
        self.balance.begin([*self.terms], prior.device, prior.dtype)
        self.term_gradients = term_gradients
        self.penalty = penalty or NoPenalty()
        self.penalty.begin(prior.seed, prior.device)
        self.penalty.share_among(self.processes)
        self.augment = augment or NoAugmentation()
        self.augment.begin(prior.seed, prior.device, pack)
        self.augment.processes = self.processes
        self._reads_source = bool(getattr(discriminator, "reads_source", False))
        self._advances = hasattr(generator, "advance")
        self._passes = Passes(autocast, accumulate, further=loss.reads)
        self.redundant_gradients = redundant_gradients

    @property
    def seed(self) -> int:
        return self.prior.seed

    def accept(self, strategy: Any) -> None:
        """Accept any strategy, since a GAN offers all that one may need; the first batch shows what does not fit."""

    def follow(self, reals: Iterator[Batch]) -> Iterator[Batch]:
        return map(self.packed, self.prior.follow(reals))

    def put_back(self) -> None:
        self.prior.put_back()

    def sample(self) -> Batch:
        """Draw a batch of latents, `(B, latent_dim)`, or of sources; with several processes, each gets its share."""
        return self._drawn(self.batch_size)

    def sample_for_g(self) -> Batch:
        """Draw a batch of latents that only G learns from; if its size is `batch_size`, `sample` draws it."""
        if self.g_batch == self.batch_size:
            return self.sample()
        return self._drawn(self.g_batch)

    def _drawn(self, n: int) -> Batch:
        drawn = self.prior.sample(n)
        return drawn if self.prior.is_share else self.processes.own(drawn)

    def generate(self, z: Batch) -> Batch:
        """Generate a batch from latents, under their conditions, packed."""
        with self.phase("g"):
            return self.packed(self._passes.generate(self.generator, Batch.of(z)))

    def packed(self, batch: Batch) -> Batch:
        """Return a batch as D scores it: in packs, and with sources as the first of its conditions if D reads them."""
        if self._reads_source:
            if batch.source is None:
                raise ValueError("the discriminator reads sources, and these samples have none: give batches with a source")
            batch = replace(batch, conditions=(batch.source, *batch.conditions))
        return batch if self.pack == 1 else packed(batch, self.pack)

    def score_real(self, x: Batch) -> Tensor:
        return self.score(x, self.discriminator)

    def score_fake(self, fake: Batch) -> Tensor:
        return self.score(fake, self.discriminator)

    def score(self, batch: Batch, discriminator: Callable[..., Tensor]) -> Tensor:
        """Augment a batch and score it by D, or any other discriminator.

        Return `(B,)`, `(B, 1, S)` where D scores S places of a sample, or `(B, 1 + k)` with what else the loss reads.
        """
        return self.processes.gather(self._passes.score(discriminator, self.augment(Batch.of(batch))))

    def score_unaugmented(self, batch: Batch) -> Tensor:
        """Score samples by D as they are, neither augmented nor gathered from other processes: one score for each pack."""
        return per_sample(self._passes.score(self.discriminator, self.packed(batch)))

    def penalty_term(
        self,
        discriminator: Callable[..., Tensor],
        x: Batch,
        fake: Batch,
        real_scores: Tensor | None = None,
        fake_scores: Tensor | None = None,
    ) -> Tensor | None:
        """Form the penalty on D, or on any other discriminator, as a function of samples before augmentation.

        The scores are those of the loss; a penalty that reads scores computes them if they are left out.
        """
        view = None
        if real_scores is not None and fake_scores is not None:
            own = self.processes.own

            def scored(batch: Batch) -> Tensor:
                return scores_of(self._passes.score(discriminator, self.augment(batch)))

            view = Seen(own(scores_of(real_scores)), own(scores_of(fake_scores)), self._generated, scored)
        return self.penalty.term(self.augment.before(self._passes.in_parts(discriminator)), x, fake, view)

    def shown_as_real(self, x: Batch, fake: Batch) -> Batch:
        """Return the samples that count as real in D's objective: the given ones, unless the augmentation replaces some."""
        return self.augment.shown_as_real(Batch.of(x), Batch.of(fake))

    def d_loss(self, x: Batch, fake: Batch) -> Objective:
        """Form D's objective on real and generated samples, penalty included."""
        with self.phase("d"):
            fake = self.shown_to_d(fake)
            x = self.shown_as_real(x, fake)
            return self._d_objective(x, fake.detach(), self.score_real(x), self.score_fake(fake))

    def g_loss(self, x: Batch | None, fake: Batch) -> Objective:
        """Form G's objective; `x` may be None unless the loss compares with real scores."""
        with self.phase("g"):
            real_scores = None
            if self.loss.g_needs_real:
                if x is None:
                    raise ValueError(f"{type(self.loss).__name__}'s generator loss needs a real batch")
                with torch.no_grad():
                    real_scores = self.score_real(x)
            return self.g_objective(real_scores, self.score_fake(fake), fake)

    def g_objective(
        self, real_scores: Tensor | None, fake_scores: Tensor, fake: Batch, by: Discriminator | None = None
    ) -> Objective:
        """Form G's objective, with penalty and terms, from the scores that D, or any other discriminator, gives its fakes.

        Terms compare features of `by`; by default features of D, with those of the targets as constants.
        """
        fake = Batch.of(fake)
        penalty = self.penalty.g_term(self.generator, fake, self._generated)
        if penalty is not None:
            if self.penalty.differentiates_gradients:
                self.need_second_derivatives("penalty of G", [penalty])
            penalty = self._of_global_batch(penalty, len(fake), len(fake_scores))
        loss = scalar(f"{type(self.loss).__name__}.g_loss", self.loss.g_loss(real_scores, fake_scores))
        if not (self.terms or self.balance.rescales or self.term_gradients):
            return Objective(times(self.balance.weight, loss), real_scores, fake_scores, penalty)
        values = {ADVERSARIAL: loss} | self._values(fake, len(fake_scores), by)
        factors = {ADVERSARIAL: self.balance.weight} | {name: term.weight for name, term in self.terms.items()}
        has_graph = fake.values.requires_grad
        logged = {name: value.detach() for name, value in values.items() if name != ADVERSARIAL}
        if self.balance.rescales and has_graph:
            factors = dict(self.balance.factors(values, factors, fake.values, self.generator, self.processes))
            logged |= {f"{name}_factor": factor for name, factor in factors.items() if isinstance(factor, Tensor)}
        if self.term_gradients and has_graph and self.meter.keeps_gradients:
            logged |= compared_gradients(values, fake.values, self.processes)
        weighed = {name: times(factors[name], value) for name, value in values.items()}
        loss, *terms = weighed.values()
        return Objective(loss, real_scores, fake_scores, penalty, sum(terms[1:], terms[0]) if terms else None, logged)

    def update_g_by_terms(self, fake: Batch) -> None:
        """Update G by those of its terms that do not read D."""
        with self.phase("g"):
            values = self._values(fake, len(fake) * self.processes.count, None, without_d=True)
            weighed = [times(self.terms[name].weight, value) for name, value in values.items()]
            gradients = self._g.gradients(sum(weighed[1:], weighed[0]))
            logged = {name: value.detach() for name, value in values.items()}
            self.meter.record_terms(logged, self.move_g(self.processes.sum(gradients)))
            self._advance_g()

    def losses(self, x: Batch, fake: Batch) -> tuple[Objective, Objective]:
        """Form both objectives from one scoring of each batch; where D's objective has other samples, G's are scored again."""
        x = Batch.of(x)
        with self.phase("d"):
            shown = self.shown_to_d(fake)
            shown_x = self.shown_as_real(x, shown)
            real_scores, fake_scores = self.score_real(shown_x), self.score_fake(shown)
            d = self._d_objective(shown_x, shown.detach(), real_scores, fake_scores)
        with self.phase("g"):
            real_scores = real_scores.detach()
            if shown_x is not x and self.loss.g_needs_real:
                with torch.no_grad():
                    real_scores = self.score_real(x)
            if shown is not fake:
                fake_scores = self.score_fake(fake)
            return d, self.g_objective(real_scores, fake_scores, fake)

    def losses_of_both(self, x: Batch, fake: Batch) -> tuple[Objective, Objective]:
        """Form both objectives as functions of both networks, for `field`.

        Unlike in `losses`, the fakes of a penalty and the real scores of G's loss keep their graph.
        """
        x = Batch.of(x)
        with self.phase("d"):
            shown_x = self.shown_as_real(x, fake)
            real_scores, fake_scores = self.score_real(shown_x), self.score_fake(fake)
            d = self._d_objective(shown_x, fake, real_scores, fake_scores)
            if shown_x is not x and self.loss.g_needs_real:
                real_scores = self.score_real(x)
        with self.phase("g"):
            return d, self.g_objective(real_scores, fake_scores, fake, self.discriminator)

    def reals_for_g(self, reals: Iterator[Batch]) -> Batch | None:
        """Draw a real batch for a separate generator update, or return None if the loss does not compare with one."""
        return next(reals) if self.loss.g_needs_real else None

    def field(self, d: Objective, g: Objective) -> Field:
        if self._passes.parts.count > 1:
            raise ValueError("this strategy differentiates gradients, which accumulate cannot: choose accumulate=1")
        if self.balance.rescales:
            raise ValueError(
                "this strategy differentiates gradients, and those that a balance rescales are not the gradient of any loss: "
                "choose balance=none, or strategy=joint"
            )
        return super().field(d, g)

    def zero_sum_weight(self) -> float | Tensor:
        if self.penalty.reads_scores:
            raise ValueError(
                "competitive needs a zero-sum game, and a penalty on D's scores of fakes depends on G as well: choose joint"
            )
        if any(term.reads_discriminator for term in self.terms.values()):
            raise ValueError(
                "competitive needs a zero-sum game, but for terms of one network alone, and a term of G on D's features "
                "depends on both: choose joint"
            )
        return self.balance.weight

    def move_d(self, gradients: Gradients) -> Gradients:
        gradients = super().move_d(gradients)
        self.penalty.constrain(self.discriminator)
        return gradients

    def finish_iteration(self) -> None:
        """Update the loss's own state from the scores of the last updates of D and of G."""
        if self.meter.last_real is not None and self.meter.last_fake is not None:
            self.loss.observe(self.meter.last_real, self.meter.last_fake)

    def measurements(self) -> dict[str, Tensor]:
        """Return what G, the augmentation and the loss measure, the last from the scores of the last updates of D and of G."""
        of_g: dict[str, Tensor] = getattr(self.generator, "measurements", dict)()
        if self.meter.last_real is None or self.meter.last_fake is None:
            return of_g
        return of_g | self.augment.measurements() | self.loss.measurements(self.meter.last_real, self.meter.last_fake)

    def parts(self) -> dict[str, Any]:
        """Return every part that has a state, by name."""
        return {
            "generator": self.generator,
            "discriminator": self.discriminator,
            "loss": self.loss,
            "penalty": self.penalty,
            "augment": self.augment,
            "balance": self.balance,
            "optimizer_g": self._g,
            "optimizer_d": self._d,
            "prior": self.prior,
            "meter": self.meter,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the state to checkpoint."""
        return {name: part.state_dict() for name, part in self.parts().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint's state."""
        for name, part in self.parts().items():
            part.load_state_dict(state[name])

    def _record_d(self, d: Objective, gradients: Gradients) -> None:
        assert d.real_scores is not None
        assert d.fake_scores is not None
        real_scores, fake_scores = per_sample(d.real_scores.detach()), per_sample(d.fake_scores.detach())
        self.meter.record_d(d, gradients)
        self.penalty.advance(real_scores, fake_scores)
        self.augment.observe(real_scores)

    def _record_g(self, g: Objective, gradients: Gradients) -> None:
        self.meter.record_g(g, gradients)
        self.penalty.advance_g()
        self.balance.advance()
        self._advance_g()

    def _advance_g(self) -> None:
        """Let G update a state of its own, such as a codebook, from its last pass."""
        if self._advances:
            generator: Any = self.generator
            generator.advance(self.processes)

    def _generated(self, z: Batch) -> Batch:
        return self.packed(self._passes.generate(self.generator, z))

    def _warn_of_sigmoid(self, scores: Tensor) -> None:
        """Warn once of a D that ends in a sigmoid under a loss on logits, by the graph of its scores."""
        if "scores" in self._checked or scores.is_meta:  # a dry run
            return
        self._checked.add("scores")
        if "logit" in self.loss.accepts and not self.loss.fits_sigmoid and ends_in_sigmoid(scores):
            log.warning(
                "The discriminator ends in a sigmoid, and %s takes its scores for logits, which have no bounds: leave it out.",
                type(self.loss).__name__,
            )

    def _d_objective(self, x: Batch, fake: Batch, real_scores: Tensor, fake_scores: Tensor) -> Objective:
        self._warn_of_sigmoid(real_scores)
        loss = scalar(f"{type(self.loss).__name__}.d_loss", self.loss.d_loss(real_scores, fake_scores))
        penalty = self.penalty_term(self.discriminator, x, fake, real_scores, fake_scores)
        if penalty is not None:
            if self.penalty.differentiates_gradients:
                self.need_second_derivatives("penalty", [penalty])
            penalty = self._of_global_batch(penalty, len(x), len(real_scores))
        return Objective(loss, real_scores, fake_scores, penalty)

    def _values(self, fake: Batch, everyone: int, by: Discriminator | None, *, without_d: bool = False) -> dict[str, Tensor]:
        """Return each of G's terms, a scalar of the global batch."""
        if not self.terms:
            return {}

        def features(batch: Batch) -> list[Tensor]:
            return self._passes.features(self.discriminator if by is None else by, batch)

        def compared(batch: Batch) -> list[Tensor]:
            with torch.set_grad_enabled(by is not None and torch.is_grad_enabled()):
                return features(batch)

        own: Any = zip(getattr(self.generator, "own_terms", ()), fake.own, strict=False)
        generated = Generated(fake, self._generated, features, compared, dict(own))
        used = {name: term for name, term in self.terms.items() if not (without_d and term.reads_discriminator)}
        return {name: self._of_global_batch(term(generated).mean(), len(fake), everyone) for name, term in used.items()}

    def _of_global_batch(self, penalty: Tensor, own: int, everyone: int) -> Tensor:
        """Return the mean over the global batch, given the mean over this process's share of it."""
        if own == everyone:
            return penalty
        return self.processes.gather((penalty * (own / everyone)).view(1)).sum()
