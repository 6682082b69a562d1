"""A trained generator together with its discriminator, which has a say in which latents are taken."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ganexp.batch import Batch
from ganexp.sampling.errors import SamplingError
from ganexp.sampling.trained import Trained, digest_of, in_batches
from ganexp.streams import undisturbed


class Scored(Trained):
    """A generator that chooses the latent of each index by D's scores.

    The choice is a function of the weights, the seed and the index. Since it rests on D's scores, it is the same in any batch
    only where the rounding of scores does not tip a decision.

    Args:
        trained: The generator, as it is.
        discriminator: Called as `discriminator(x)`, or `discriminator(x, labels)`; its scores have to be log p(x)/g(x), up to a
            constant, p being the density of the data and g that of the samples.
    """

    def __init__(self, trained: Trained, discriminator: nn.Module) -> None:
        super().__init__(
            trained.network,
            latent_dim=trained.latent_dim,
            prior=trained.prior,
            shape=trained.shape,
            classes=trained.classes,
            device=trained.device,
            dtype=trained.dtype,
            origin=trained.origin,
        )
        self.discriminator = discriminator.to(trained.device, trained.dtype).requires_grad_(False).eval()

    @property
    def how(self) -> dict[str, Any]:
        """The weights of the discriminator, by their digest; each method adds its own settings."""
        return {"discriminator": digest_of(self.discriminator.state_dict())}

    def latents(
        self, indices: Sequence[int], seed: int = 0, *, label: int | None = None, truncation: float | None = None
    ) -> Batch:
        """Return the latents of indices, chosen batch by batch.

        Raises:
            SamplingError: As in `Trained.latents`; or there is a truncation, or scores are not finite.
        """
        if truncation is not None:
            raise SamplingError("truncation does not go with a method of sampling, which weighs the whole prior: leave it out")
        parts = []
        for some in in_batches(indices):
            with undisturbed(self.device, seed):
                parts.append(self.chosen(some, seed, self.labels(some, label)))
        return Batch(torch.cat(parts), self.labels(indices, label))

    def chosen(self, indices: Sequence[int], seed: int, labels: tuple[Tensor, ...]) -> Tensor:
        """Return the latents of a few indices, `(N, latent_dim)`, under their labels."""
        raise NotImplementedError

    def scores(self, z: Tensor, labels: tuple[Tensor, ...]) -> Tensor:
        """Return D's scores `(N,)` of the samples that latents `(N, latent_dim)` give.

        Raises:
            SamplingError: They are not finite.
        """
        scored = self.discriminator(self.network(z, *labels), *labels)
        if not scored.isfinite().all():
            raise SamplingError("the discriminator's scores are not finite: take an earlier checkpoint")
        return scored
