"""Samplers that choose latents by a discriminator's scores."""

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor, nn

from ganexp.batch import Batch
from ganexp.facts import UserError
from ganexp.ranges import checked
from ganexp.sampling.trained import AT_ONCE, Trained, in_batches, latents, one_latent, weights_digest
from ganexp.streams import stream, undisturbed

EPSILON = 1e-14


class Scored(Trained):
    """A generator that chooses the latent of each index by D's scores.

    The choice is a function of the weights, the seed and the index, unless the rounding of scores, which depends on the batch,
    changes a decision.

    Args:
        trained: The generator.
        discriminator: Called as `discriminator(x)`, or `discriminator(x, labels)`; its scores have to be log p(x)/g(x), up to a
            constant, p being the density of the data and g that of the samples.
    """

    def __init__(self, trained: Trained, discriminator: nn.Module) -> None:
        super().__init__(trained.network, **trained.given())
        self.discriminator = discriminator.to(trained.device, trained.dtype).requires_grad_(False).eval()

    @property
    def how(self) -> dict[str, Any]:
        """The digest of the discriminator's weights; methods add their settings."""
        return {"discriminator": weights_digest(self.discriminator.state_dict())}

    def under(self, truncation: float | None) -> tuple[Trained, None]:
        """Return the generator, and refuse a truncation."""
        if truncation is not None:
            raise UserError("truncation does not go with a method of sampling, which weighs the whole prior: leave it out")
        return self, None

    def latents(
        self, indices: Sequence[int], seed: int = 0, *, label: int | str | None = None, truncation: float | None = None
    ) -> Batch:
        """Return the latents of indices, chosen batch by batch."""
        self.under(truncation)
        parts = []
        for part in in_batches(indices):
            with undisturbed(self.device, seed):
                parts.append(self.chosen(part, seed, self.labels(part, label)))
        return Batch(torch.cat(parts), self.labels(indices, label))

    def chosen(self, indices: Sequence[int], seed: int, labels: tuple[Tensor, ...]) -> Tensor:
        """Return the latents of a few indices, `(N, latent_dim)`, under their labels."""
        raise NotImplementedError

    def scores(self, z: Tensor, labels: tuple[Tensor, ...]) -> Tensor:
        """Return D's scores `(N,)` of the samples of latents `(N, latent_dim)`; refuse scores that are not finite."""
        scored = self.discriminator(self.network(z, *labels), *labels)
        if not scored.isfinite().all():
            raise UserError("the discriminator's scores are not finite: take an earlier checkpoint")
        return scored


class Langevin(Scored):
    """Latents that move towards higher scores of D (Che et al. 2020, discriminator driven latent sampling).

    From a z of the prior, z ← z − ½ε ∇E(z) + √ε n is repeated `steps` times, where E(z) = ½‖z‖² − d(G(z)), d is D's score, and
    n is normal (equation 9). For small ε and many steps, z is distributed as exp(−E), and G(z) as the data if D is optimal and
    G reaches them. Each index has noise of its own. For normal latents only.

    Args:
        trained, discriminator: As in `Scored`.
        steps: Number of steps.
        step_size: ε.
    """

    @checked
    def __init__(
        self,
        trained: Trained,
        discriminator: nn.Module,
        *,
        steps: Annotated[int, Ge(1)] = 100,
        step_size: Annotated[float, Gt(0)] = 0.01,
    ) -> None:
        if trained.prior != "normal":
            raise UserError(f"Langevin steps are for normal latents, and these are {trained.prior}: choose rejection")
        super().__init__(trained, discriminator)
        self.steps, self.step_size = steps, step_size

    @property
    def how(self) -> dict[str, Any]:
        """The method, its settings and the discriminator."""
        return {"method": "langevin", "steps": self.steps, "step_size": self.step_size, **super().how}

    def chosen(self, indices: Sequence[int], seed: int, labels: tuple[Tensor, ...]) -> Tensor:
        """Return the latent of each index after all steps."""
        z = latents(indices, self.latent_dim, self.prior, seed=seed).to(self.device, self.dtype)
        streams = [stream(seed, "langevin", index=index) for index in indices]
        for _ in range(self.steps):
            noise = torch.stack([torch.randn(self.latent_dim, dtype=torch.float64, generator=rng) for rng in streams])
            with torch.enable_grad():
                here = z.detach().requires_grad_()
                energy = 0.5 * here.square().sum() - self.scores(here, labels).sum()
                (slope,) = torch.autograd.grad(energy, here)
            z = z - 0.5 * self.step_size * slope + self.step_size**0.5 * noise.to(z)
        if not z.isfinite().all():
            raise UserError(f"Langevin steps of size {self.step_size} diverged: choose a smaller step size")
        return z


class Rejection(Scored):
    """Samples that are kept with a probability that grows with D's score (Azadi et al. 2019, discriminator rejection sampling).

    With d the score and M the largest one among `pilot` samples, a sample is kept with probability σ(F), where
    F = d − M − log(1 − exp(d − M − ε)) − γ (equation 8). With γ = 0, σ(F) is exp(d − M), and kept samples have the density of
    the data if D is optimal. `percentile` sets γ to that percentile of F among the pilot's samples, as the paper does, which
    keeps more samples and corrects less. Each index has candidates of its own, and takes the first that is kept.

    Departures: the pilot fixes M and γ, so that a sample does not depend on what was drawn before; the paper raises M as it
    goes, and has a γ for each batch. A score above M counts as M.

    Args:
        trained, discriminator: As in `Scored`.
        percentile: The percentile of F, from 0 to 100; None means γ = 0.
        pilot: Number of samples for M and γ.
        most: The maximum number of candidates of an index.
    """

    @checked
    def __init__(
        self,
        trained: Trained,
        discriminator: nn.Module,
        *,
        percentile: Annotated[float, Ge(0), Le(100)] | None = None,
        pilot: Annotated[int, Ge(2)] = 10_000,
        most: Annotated[int, Ge(1)] = 10_000,
    ) -> None:
        super().__init__(trained, discriminator)
        self.percentile, self.pilot, self.most = percentile, pilot, most
        pilot_scores = []
        with undisturbed(self.device), torch.no_grad():  # networks may draw noise of their own
            for indices in in_batches(range(pilot)):
                streams = [stream(0, "pilot", index=index) for index in indices]
                z = torch.stack([one_latent(rng, self.latent_dim, self.prior) for rng in streams])
                pilot_scores.append(self.scores(z.to(self.device, self.dtype), self.labels(indices)).double())
        scores = torch.cat(pilot_scores)
        self.largest = float(scores.max())
        self.gamma = 0.0
        if percentile is not None:
            self.gamma = float(torch.quantile(self._margin(scores), percentile / 100))

    @property
    def how(self) -> dict[str, Any]:
        """The method, its settings and the discriminator."""
        return {"method": "rejection", "percentile": self.percentile, "pilot": self.pilot, **super().how}

    def _margin(self, scores: Tensor) -> Tensor:
        """Return F + γ of scores in float64."""
        below = (scores - self.largest).clamp(max=0)
        return below - torch.log(-torch.expm1(below - EPSILON))

    def chosen(self, indices: Sequence[int], seed: int, labels: tuple[Tensor, ...]) -> Tensor:
        """Return the first candidate of each index that is kept."""
        latents(indices, self.latent_dim, self.prior, seed=seed)  # refuses seeds and indices out of range
        streams = [stream(seed, "candidates", index=index) for index in indices]
        kept = torch.empty(len(indices), self.latent_dim, dtype=torch.float64)
        left, tried = list(range(len(indices))), 0
        while left:
            if tried >= self.most:
                raise UserError(
                    f"none of {self.most} candidates for sample {indices[left[0]]} was accepted: choose a percentile, "
                    "such as 80"
                )
            each = max(1, min(AT_ONCE // len(left), self.most - tried))
            z, luck = [], []
            for place in left:
                for _ in range(each):
                    z.append(one_latent(streams[place], self.latent_dim, self.prior))
                    luck.append(torch.rand((), dtype=torch.float64, generator=streams[place]))
            of = torch.tensor(left).repeat_interleave(each)
            candidates = torch.stack(z)
            with torch.no_grad():
                scores = (
                    self.scores(candidates.to(self.device, self.dtype), tuple(label[of] for label in labels)).double().cpu()
                )
            keep = (torch.stack(luck) < torch.sigmoid(self._margin(scores) - self.gamma)).view(-1, each)
            first, candidates = keep.int().argmax(1), candidates.view(len(left), each, -1)
            for row, place in enumerate(left):
                if keep[row].any():
                    kept[place] = candidates[row, first[row]]
            left = [place for row, place in enumerate(left) if not keep[row].any()]
            tried += each
        return kept.to(self.device, self.dtype)
