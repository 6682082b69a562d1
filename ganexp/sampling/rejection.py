"""Discriminator rejection sampling."""

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from ganexp.ranges import checked
from ganexp.sampling.errors import SamplingError
from ganexp.sampling.latents import latents, one_latent
from ganexp.sampling.scored import Scored
from ganexp.sampling.trained import AT_ONCE, Trained, in_batches
from ganexp.streams import stream, undisturbed

EPSILON = 1e-14


class Rejection(Scored):
    """Samples that are kept with a probability that grows with D's score (Azadi et al. 2019, discriminator rejection sampling).

    With d the score and M the largest one among `pilot` samples, a sample is kept with probability σ(F), where
    F = d − M − log(1 − exp(d − M − ε)) − γ (equation 8). With γ = 0, σ(F) is exp(d − M), and kept samples have the density of
    the data if D is optimal. `percentile` sets γ to that percentile of F among the pilot's samples, as the paper does, which
    keeps more samples and corrects less. Each index has candidates of its own, and takes the first that is kept.

    Departures: the pilot fixes M and γ, so that a sample does not depend on what was drawn before; the paper raises M as it
    goes, and has a γ for each batch. A score above M is treated as M.

    Args:
        trained, discriminator: As in `Scored`.
        percentile: The percentile of F, from 0 to 100; None means γ = 0.
        pilot: How many samples M and γ are taken from.
        most: After how many candidates an index is given up.

    Raises:
        SamplingError: Scores are not finite.
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
        found = []
        with undisturbed(self.device), torch.no_grad():  # networks may draw noise of their own
            for indices in in_batches(range(pilot)):
                streams = [stream(0, "pilot", index=index) for index in indices]
                z = torch.stack([one_latent(rng, self.latent_dim, self.prior) for rng in streams])
                found.append(self.scores(z.to(self.device, self.dtype), self.labels(indices)).double())
        scores = torch.cat(found)
        self.largest = float(scores.max())
        self.gamma = 0.0
        if percentile is not None:
            self.gamma = float(torch.quantile(self._margin(scores), percentile / 100))

    @property
    def how(self) -> dict[str, Any]:
        """What tells its samples from other samples of the generator."""
        return {"method": "rejection", "percentile": self.percentile, "pilot": self.pilot, **super().how}

    def _margin(self, scores: Tensor) -> Tensor:
        """Return F + γ of scores in float64."""
        below = (scores - self.largest).clamp(max=0)
        return below - torch.log(-torch.expm1(below - EPSILON))

    def chosen(self, indices: Sequence[int], seed: int, labels: tuple[Tensor, ...]) -> Tensor:
        """Return the first kept candidate of each index.

        Raises:
            SamplingError: An index keeps none of `most` candidates.
        """
        latents(indices, self.latent_dim, self.prior, seed=seed)  # refuses seeds and indices out of range
        streams = [stream(seed, "candidates", index=index) for index in indices]
        kept = torch.empty(len(indices), self.latent_dim, dtype=torch.float64)
        left, tried = list(range(len(indices))), 0
        while left:
            if tried >= self.most:
                raise SamplingError(
                    f"of {self.most} candidates for sample {indices[left[0]]} none was kept: choose a percentile, such as 80"
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
                scores = self.scores(candidates.to(self.device, self.dtype), tuple(one[of] for one in labels)).double().cpu()
            keep = (torch.stack(luck) < torch.sigmoid(self._margin(scores) - self.gamma)).view(-1, each)
            first, candidates = keep.int().argmax(1), candidates.view(len(left), each, -1)
            for row, place in enumerate(left):
                if keep[row].any():
                    kept[place] = candidates[row, first[row]]
            left = [place for row, place in enumerate(left) if not keep[row].any()]
            tried += each
        return kept.to(self.device, self.dtype)
