"""The GAN, and the verbs that update strategies are written in."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ganexp.losses import Loss
from ganexp.meter import Meter
from ganexp.optimizers.ownership import Optimized, refuse_foreign_parameters
from ganexp.penalties import NoPenalty
from ganexp.prior import Prior

Gradients = tuple[Tensor | None, ...]
"""One gradient per trainable parameter of a network, None where the loss does not reach it."""


@dataclass(frozen=True)
class Objective:
    """What one network minimises, formed at one point: nothing has been recorded or moved yet.

    Args:
        loss: A scalar, without the penalty.
        real_scores: `(B,)`, or None if the loss did not look at real samples.
        fake_scores: `(B,)`.
        penalty: A further scalar, if there is one.
    """

    loss: Tensor
    real_scores: Tensor | None
    fake_scores: Tensor
    penalty: Tensor | None = None

    @property
    def value(self) -> Tensor:
        """The scalar that is differentiated."""
        return self.loss if self.penalty is None else self.loss + self.penalty


class GAN:
    """Two networks, a loss, two optimisers and a latent prior, with one verb for each thing a strategy can say.

    Verbs form quantities (`sample`, `generate`, `d_loss`, `g_loss`, `losses`), differentiate them (`gradients`), move networks
    (`move`), or update: differentiate, move and record. Only updates record, so that looking at a loss, or ahead, moves no
    k_t and no mean in the log. An update computes gradients for the parameters of the network that moves, applies
    them, and leaves no gradient behind in either network.

    Args:
        generator: Maps latents `(B, latent_dim)` to a batch shaped like the real one, never a view of its parameters.
        discriminator: Maps a batch to scores `(B,)`, one per sample.
        loss: The two objectives, as functions of scores.
        optimizer_g, optimizer_d: Optimisers over the parameters of one network each.
        prior: Where latents come from.
        batch_size: How many latents one batch has.
        penalty: A further term of D's loss, or a constraint on its weights.
        redundant_gradients: Compute in every backward pass the gradients of *all* parameters that it can reach, as
            textbook loops do, and throw the other network's away. Changes the cost, never the result.
        autocast: Run the networks' matrix products and convolutions in this narrower type (mixed precision). Parameters,
            samples, scores, losses, penalties and optimisers keep the networks' own.

    Raises:
        ValueError: The optimisers and the networks do not belong together: an optimiser steps parameters that are not its
            network's, or lacks trainable ones; the networks share parameters; or a network is wrapped for data parallelism.
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
        penalty: NoPenalty | None = None,
        redundant_gradients: bool = False,
        autocast: torch.dtype | None = None,
    ) -> None:
        refuse_foreign_parameters(generator, discriminator, optimizer_g, optimizer_d)
        self.generator = generator
        self.discriminator = discriminator
        self.loss = loss
        self.optimizer_g = optimizer_g
        self.optimizer_d = optimizer_d
        self.prior = prior
        self.batch_size = batch_size
        self.penalty = penalty or NoPenalty()
        self.redundant_gradients = redundant_gradients
        self.autocast = autocast
        self.updates: Counter[str] = Counter(d=0, g=0)
        self.last_real: Tensor | None = None
        self.last_fake: Tensor | None = None
        self.meter = Meter()
        self.phase: Callable[[str], AbstractContextManager[object]] = lambda name: nullcontext()
        self._g_optimized = Optimized("generator", "optimizer_g", generator, optimizer_g)
        self._d_optimized = Optimized("discriminator", "optimizer_d", discriminator, optimizer_d)

    @property
    def d_updates(self) -> int:
        """How many updates D has made."""
        return self.updates["d"]

    @property
    def g_updates(self) -> int:
        """How many updates G has made."""
        return self.updates["g"]

    @property
    def d_parameters(self) -> list[nn.Parameter]:
        """The parameters of D that are trained now."""
        return self._d_optimized.trainable()

    @property
    def g_parameters(self) -> list[nn.Parameter]:
        """The parameters of G that are trained now."""
        return self._g_optimized.trainable()

    # Forming: nothing is recorded, nothing moves.

    def sample(self) -> Tensor:
        """Draw a batch of latents, `(B, latent_dim)`."""
        return self.prior.sample(self.batch_size)

    def generate(self, z: Tensor) -> Tensor:
        """Generate a batch from latents."""
        with self.phase("g"):
            return self._run(self.generator, z)

    def score_real(self, x: Tensor) -> Tensor:
        """Score real samples, `(B,)`."""
        return self.score(x, self.discriminator)

    def score_fake(self, fake: Tensor) -> Tensor:
        """Score generated samples, `(B,)`."""
        return self.score(fake, self.discriminator)

    def score(self, batch: Tensor, discriminator: Callable[[Tensor], Tensor]) -> Tensor:
        """Score a batch by D, or by any other discriminator, `(B,)`.

        Raises:
            ValueError: There is not one score per sample.
        """
        scores = self._run(discriminator, batch)
        if scores.shape != batch.shape[:1]:
            raise ValueError(
                f"the discriminator must return one score per sample, {(len(batch),)} for a batch of shape "
                f"{tuple(batch.shape)}, and returned {tuple(scores.shape)}: end it with .flatten(1).mean(1), which averages "
                "the scores of patches"
            )
        return scores

    def d_loss(self, x: Tensor, fake: Tensor) -> Objective:
        """Form D's objective on real and generated samples, penalty included."""
        with self.phase("d"):
            return self._d_objective(x, fake, self.score_real(x), self.score_fake(fake))

    def g_loss(self, x: Tensor | None, fake: Tensor) -> Objective:
        """Form G's objective; `x` is looked at only if the loss compares with real scores, and may else be None."""
        with self.phase("g"):
            real_scores = self._real_scores_for_g(x) if self.loss.g_needs_real else None
            fake_scores = self.score_fake(fake)
            return Objective(self.loss.g_loss(real_scores, fake_scores), real_scores, fake_scores)

    def losses(self, x: Tensor, fake: Tensor) -> tuple[Objective, Objective]:
        """Form both objectives from one scoring of each batch."""
        with self.phase("d"):
            real_scores, fake_scores = self.score_real(x), self.score_fake(fake)
            d = self._d_objective(x, fake, real_scores, fake_scores)
        with self.phase("g"):
            real_scores = real_scores.detach()
            return d, Objective(self.loss.g_loss(real_scores, fake_scores), real_scores, fake_scores)

    def reals_for_g(self, reals: Iterator[Tensor]) -> Tensor | None:
        """Draw a real batch for a generator update of its own, or None where the loss has no use for it."""
        return next(reals) if self.loss.g_needs_real else None

    # Differentiating and moving.

    def gradients(self, d: Objective, g: Objective) -> tuple[Gradients, Gradients]:
        """Take the gradient of D's objective for D and of G's objective for G."""
        with self.phase("d"):
            d_gradients = self._gradients(d, self.d_parameters, self._d_redundant(), retain_graph=True)
        with self.phase("g"):
            return d_gradients, self._gradients(g, self.g_parameters, self._g_redundant())

    def move(self, d_gradients: Gradients, g_gradients: Gradients) -> None:
        """Move both networks by one step of their optimisers, recording nothing."""
        with self.phase("d"):
            self._move_d(d_gradients)
        with self.phase("g"):
            _step(self.optimizer_g, self.g_parameters, g_gradients)

    # Updating: differentiate, move, record.

    def update_d(self, d: Objective, *, retain_graph: bool = False) -> None:
        """Descend D's objective by one step of D; `retain_graph` keeps the graph for a later backward pass."""
        with self.phase("d"):
            gradients = self._gradients(d, self.d_parameters, self._d_redundant(), retain_graph)
            self._record_d(d, gradients)
            self._move_d(gradients)

    def update_g(self, g: Objective) -> None:
        """Descend G's objective by one step of G."""
        with self.phase("g"):
            gradients = self._gradients(g, self.g_parameters, self._g_redundant())
            self._record_g(g, gradients)
            _step(self.optimizer_g, self.g_parameters, gradients)

    def update_both(self, d: Objective, g: Objective, gradients: tuple[Gradients, Gradients] | None = None) -> None:
        """Move both networks by gradients taken at the same point: those of the objectives, or given ones that are."""
        d_gradients, g_gradients = gradients or self.gradients(d, g)
        self._record_d(d, d_gradients)
        self._record_g(g, g_gradients)
        self.move(d_gradients, g_gradients)

    def finish_iteration(self) -> None:
        """Let the loss move its own state, once, by the scores of the last D update and the last G update."""
        if self.last_real is not None and self.last_fake is not None:
            self.loss.observe(self.last_real, self.last_fake)

    def measurements(self) -> dict[str, Tensor]:
        """Return what the loss has to log beside its values, by the scores of the same two updates."""
        if self.last_real is None or self.last_fake is None:
            return {}
        return self.loss.measurements(self.last_real, self.last_fake)

    # How.

    def _run(self, network: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
        if self.autocast is None:
            return network(batch)
        with torch.autocast(batch.device.type, self.autocast, cache_enabled=False):  # a weight is used once a pass
            return network(batch).to(batch.dtype)

    def _d_objective(self, x: Tensor, fake: Tensor, real_scores: Tensor, fake_scores: Tensor) -> Objective:
        loss = self.loss.d_loss(real_scores, fake_scores)
        return Objective(loss, real_scores, fake_scores, self.penalty(self.discriminator, x, fake.detach()))

    def _real_scores_for_g(self, x: Tensor | None) -> Tensor:
        if x is None:
            raise ValueError(f"{type(self.loss).__name__}'s generator loss needs a real batch")
        with torch.no_grad():
            return self.score_real(x)

    def _d_redundant(self) -> list[nn.Parameter]:
        return self.g_parameters if self.redundant_gradients else []

    def _g_redundant(self) -> list[nn.Parameter]:
        return self.d_parameters if self.redundant_gradients else []

    def _gradients(
        self, objective: Objective, own: list[nn.Parameter], redundant: list[nn.Parameter], retain_graph: bool = False
    ) -> Gradients:
        wanted = own + redundant
        gradients = torch.autograd.grad(objective.value, wanted, retain_graph=retain_graph, allow_unused=True)[: len(own)]
        if all(gradient is None for gradient in gradients):
            raise ValueError(
                "the objective of an update depends on no parameter of the network that it moves: a batch was detached that "
                "should not be, x and fake are swapped, or another network's objective was given"
            )
        return gradients

    def _record_d(self, d: Objective, gradients: Gradients) -> None:
        assert d.real_scores is not None
        self.updates["d"] += 1
        self.last_real = d.real_scores.detach()
        self.meter.add("loss/d", d.loss)
        self.meter.add("score/real", self.last_real.mean())
        self.meter.add("score/fake", d.fake_scores.detach().mean())
        if d.penalty is not None:
            self.meter.add("loss/penalty", d.penalty)
        self.meter.norm("grad_norm/d", gradients)

    def _record_g(self, g: Objective, gradients: Gradients) -> None:
        self.updates["g"] += 1
        self.last_fake = g.fake_scores.detach()
        self.meter.add("loss/g", g.loss)
        self.meter.norm("grad_norm/g", gradients)

    def _move_d(self, gradients: Gradients) -> None:
        _step(self.optimizer_d, self.d_parameters, gradients)
        self.penalty.constrain(self.discriminator)


def _step(optimizer: Optimizer, parameters: list[nn.Parameter], gradients: Gradients) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = _laid_out_like(parameter, gradient)
    optimizer.step()
    for parameter in parameters:
        parameter.grad = None


def _laid_out_like(parameter: Tensor, gradient: Tensor | None) -> Tensor | None:
    """Give a gradient its parameter's strides, as `backward()` would: fused optimisers read both as one flat array."""
    if gradient is None or gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
