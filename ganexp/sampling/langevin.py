"""Langevin steps in latent space."""

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn

from ganexp.ranges import checked
from ganexp.sampling.errors import SamplingError
from ganexp.sampling.latents import latents
from ganexp.sampling.scored import Scored
from ganexp.sampling.trained import Trained
from ganexp.streams import stream


class Langevin(Scored):
    """Latents that move towards what D takes for more real (Che et al. 2020, discriminator driven latent sampling).

    From a z of the prior, z ← z − ½ε ∇E(z) + √ε n is repeated `steps` times, where E(z) = ½‖z‖² − d(G(z)), d is D's score, and
    n is normal (equation 9). For small ε and many steps, z is distributed as exp(−E), and G(z) as the data if D is optimal and
    G reaches them. Each index has noise of its own. For normal latents only.

    Args:
        trained, discriminator: As in `Scored`.
        steps: How many steps.
        step_size: ε.

    Raises:
        SamplingError: Latents are not normal.
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
            raise SamplingError(f"Langevin steps are for normal latents, and these are {trained.prior}: choose rejection")
        super().__init__(trained, discriminator)
        self.steps, self.step_size = steps, step_size

    @property
    def how(self) -> dict[str, Any]:
        """What tells its samples from other samples of the generator."""
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
            raise SamplingError(f"latents have left every bound by steps of {self.step_size}: choose a smaller step size")
        return z
