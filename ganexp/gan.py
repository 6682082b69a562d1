"""The GAN, and the verbs that update strategies are written in."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ganexp.losses import Loss
from ganexp.meter import Meter
from ganexp.one_pass import by_scores, refuse_coupled_images
from ganexp.ownership import Optimized, refuse_foreign_parameters
from ganexp.penalties import NoPenalty
from ganexp.prior import Prior
from ganexp.unroll import unroll

Gradients = tuple[Tensor | None, ...]
"""One gradient per parameter of a network, None where the loss does not reach it."""


class GAN:
    """Two networks, a loss, two optimisers and a latent prior, with one verb for each thing a strategy can say.

    A verb forms a quantity or applies an update; none does both. An update computes gradients for the parameters of
    the network that moves, applies them, and leaves no gradient behind in either network.

    Args:
        generator: Maps latents `(B, latent_dim)` to a batch shaped like the real one, never a view of its parameters.
        discriminator: Maps a batch to scores `(B,)`, one per image.
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
        self._images_are_scored_alone = False

    @property
    def d_updates(self) -> int:
        """How many updates D has made."""
        return self.updates["d"]

    @property
    def g_updates(self) -> int:
        """How many updates G has made."""
        return self.updates["g"]

    # What can be formed.

    def sample(self) -> Tensor:
        """Draw a batch of latents, `(B, latent_dim)`."""
        return self.prior.sample(self.batch_size)

    def generate(self, z: Tensor) -> Tensor:
        """Generate a batch from latents."""
        with self.phase("g"):
            return self._run(self.generator, z)

    def score_real(self, x: Tensor) -> Tensor:
        """Score real images, `(B,)`."""
        return self._score(self.discriminator, x)

    def score_fake(self, fake: Tensor) -> Tensor:
        """Score generated images, `(B,)`."""
        return self._score(self.discriminator, fake)

    def d_loss(self, x: Tensor, fake: Tensor) -> Tensor:
        """Form D's loss on real and generated images, penalty included."""
        with self.phase("d"):
            return self._d_objective(x, fake, self.score_real(x), self.score_fake(fake))

    def g_loss(self, fake: Tensor, x: Tensor | None) -> Tensor:
        """Form G's loss; `x` is looked at only if the loss compares with real scores, and may else be None."""
        with self.phase("g"):
            real = self._real_scores_for_g(x) if self.loss.g_needs_real else None
            return self._g_objective(real, self.score_fake(fake))

    def losses(self, x: Tensor, fake: Tensor) -> tuple[Tensor, Tensor]:
        """Form D's loss and G's loss from one scoring of each batch."""
        with self.phase("d"):
            real, scores = self.score_real(x), self.score_fake(fake)
            d_loss = self._d_objective(x, fake, real, scores)
        with self.phase("g"):
            return d_loss, self._g_objective(real.detach(), scores)

    def unrolled_g_loss(self, x: Tensor, fake: Tensor, *, k: int, rate: float) -> Tensor:
        """Form G's loss against the discriminator that `k` gradient steps of size `rate` on this batch would make of D."""
        with self.phase("g"):
            ahead = unroll(self.discriminator, lambda d: self._looked_ahead(d, x, fake), k=k, rate=rate)
            real = self._score(ahead, x) if self.loss.g_needs_real else None
            return self._g_objective(real, self._score(ahead, fake))

    def reals_for_g(self, reals: Iterator[Tensor]) -> Tensor | None:
        """Draw a real batch for a generator update of its own, or None where the loss has no use for it."""
        return next(reals) if self.loss.g_needs_real else None

    # What can be updated.

    def update_d(self, loss: Tensor, *, retain_graph: bool = False) -> None:
        """Descend D's loss by one step of D; `retain_graph` keeps the graph for a later backward pass."""
        with self.phase("d"):
            self._step_d(self._gradients(loss, self._d_parameters, self._g_parameters, retain_graph))

    def update_g(self, loss: Tensor) -> None:
        """Descend G's loss by one step of G."""
        with self.phase("g"):
            self._step_g(self._gradients(loss, self._g_parameters, self._d_parameters))

    def update_both(self, d_loss: Tensor, g_loss: Tensor) -> None:
        """Take both gradients at the same point, then move both networks."""
        self.move_both(*self.gradients(d_loss, g_loss))

    def gradients(self, d_loss: Tensor, g_loss: Tensor) -> tuple[Gradients, Gradients]:
        """Take the gradient of D's loss for D and of G's loss for G."""
        with self.phase("d"):
            d_gradients = self._gradients(d_loss, self._d_parameters, self._g_parameters, retain_graph=True)
        with self.phase("g"):
            g_gradients = self._gradients(g_loss, self._g_parameters, self._d_parameters)
        return d_gradients, g_gradients

    def gradients_in_one_pass(self, x: Tensor, fake: Tensor) -> tuple[Gradients, Gradients]:
        """Take the gradients of `gradients(*losses(x, fake))` by one backward pass of the fakes through D.

        See `ganexp.one_pass` for why that is exact, and for which discriminators.

        Raises:
            ValueError: Images interact inside D, and the loss is one for which that matters.
        """
        if not self._images_are_scored_alone:  # looked at once: the answer waits for the device
            refuse_coupled_images(self.discriminator, self.loss, x)
            self._images_are_scored_alone = True
        with self.phase("d"):
            real, scores = self.score_real(x), self.score_fake(fake)
            by_score = by_scores(self.loss, real, scores)
            self._record_d(real, scores, by_score.d_loss)
            outputs, seeds = (real, scores), (by_score.d_real, by_score.seed)
            *own, by_image = torch.autograd.grad(outputs, [*self._d_parameters, fake], seeds, allow_unused=True)
            d_gradients: Gradients = tuple(own)
            penalty = self._penalize(x, fake)
            if penalty is not None:
                further = torch.autograd.grad(penalty, self._d_parameters, allow_unused=True)
                d_gradients = tuple(_sum(a, b) for a, b in zip(d_gradients, further, strict=True))
        with self.phase("g"):
            self._record_g(scores, by_score.g_loss)
            scale = by_score.scale.view(-1, *[1] * (fake.dim() - 1))
            g_gradients = torch.autograd.grad(fake, self._g_parameters, scale * by_image, allow_unused=True)
        return d_gradients, g_gradients

    def move_both(self, d_gradients: Gradients, g_gradients: Gradients) -> None:
        """Move both networks by gradients that were taken before."""
        with self.phase("d"):
            self._step_d(d_gradients)
        with self.phase("g"):
            self._step_g(g_gradients)

    @contextmanager
    def looking_ahead(self) -> Iterator[None]:
        """Let both networks move inside, and put their parameters back at the end; optimisers keep what they saw."""
        here: list[Tensor] = [*self._g_parameters, *self._d_parameters]
        kept, updates = [p.detach().clone() for p in here], dict(self.updates)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(here, kept)
            self.updates.update(d=updates["d"] - self.d_updates, g=updates["g"] - self.g_updates)

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

    @property
    def _g_parameters(self) -> list[nn.Parameter]:
        return self._g_optimized.trainable()

    @property
    def _d_parameters(self) -> list[nn.Parameter]:
        return self._d_optimized.trainable()

    def _run(self, network: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        if self.autocast is None:
            return network(x)
        with torch.autocast(x.device.type, self.autocast, cache_enabled=False):  # a weight is used once a pass
            return network(x).to(x.dtype)

    def _score(self, discriminator: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        scores = self._run(discriminator, x)
        if scores.shape != x.shape[:1]:
            raise ValueError(
                f"the discriminator must return one score per sample, {(len(x),)} for a batch of shape {tuple(x.shape)}, and "
                f"returned {tuple(scores.shape)}: end it with .flatten(1).mean(1), which averages the scores of patches"
            )
        return scores

    def _looked_ahead(self, discriminator: Callable[[Tensor], Tensor], x: Tensor, fake: Tensor) -> Tensor:
        """Form D's loss as another discriminator has it, penalty included, without recording anything."""
        loss = self.loss.d_loss(self._score(discriminator, x), self._score(discriminator, fake))
        penalty = self.penalty(discriminator, x, fake)
        return loss if penalty is None else loss + penalty

    def _d_objective(self, x: Tensor, fake: Tensor, real: Tensor, scores: Tensor) -> Tensor:
        loss = self.loss.d_loss(real, scores)
        self._record_d(real, scores, loss)
        penalty = self._penalize(x, fake)
        return loss if penalty is None else loss + penalty

    def _penalize(self, x: Tensor, fake: Tensor) -> Tensor | None:
        penalty = self.penalty(self.discriminator, x, fake.detach())
        if penalty is not None:
            self.meter.add("loss/penalty", penalty)
        return penalty

    def _g_objective(self, real: Tensor | None, scores: Tensor) -> Tensor:
        loss = self.loss.g_loss(real, scores)
        self._record_g(scores, loss)
        return loss

    def _record_d(self, real: Tensor, scores: Tensor, loss: Tensor) -> None:
        self.last_real = real.detach()
        self.meter.add("loss/d", loss)
        self.meter.add("score/real", real.detach().mean())
        self.meter.add("score/fake", scores.detach().mean())

    def _record_g(self, scores: Tensor, loss: Tensor) -> None:
        self.last_fake = scores.detach()
        self.meter.add("loss/g", loss)

    def _real_scores_for_g(self, x: Tensor | None) -> Tensor:
        if x is None:
            raise ValueError(f"{type(self.loss).__name__}'s generator loss needs a real batch")
        with torch.no_grad():
            return self.score_real(x)

    def _gradients(
        self, loss: Tensor, own: list[nn.Parameter], other: list[nn.Parameter], retain_graph: bool = False
    ) -> Gradients:
        wanted = own + other if self.redundant_gradients else own
        return torch.autograd.grad(loss, wanted, retain_graph=retain_graph, allow_unused=True)[: len(own)]

    def _step_d(self, gradients: Gradients) -> None:
        self.meter.norm("grad_norm/d", gradients)
        _apply(self.optimizer_d, self._d_parameters, gradients)
        self.penalty.constrain(self.discriminator)
        self.updates["d"] += 1

    def _step_g(self, gradients: Gradients) -> None:
        self.meter.norm("grad_norm/g", gradients)
        _apply(self.optimizer_g, self._g_parameters, gradients)
        self.updates["g"] += 1


def _apply(optimizer: Optimizer, parameters: list[nn.Parameter], gradients: Gradients) -> None:
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


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return second if first is None else first if second is None else first + second
