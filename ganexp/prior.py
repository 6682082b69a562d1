"""The distribution that latents z are drawn from."""

from typing import Literal

import torch
from torch import Tensor

from ganexp.streams import stream


class Prior:
    """Latent vectors with independent coordinates: standard normal, or uniform on (-1, 1) as in DCGAN and BEGAN.

    Args:
        latent_dim: Length of one latent vector.
        distribution: `normal` or `uniform`.
        seed: Seed of the two streams, one for training and one for what is fixed or only looked at.
        device, dtype: Where and as what latents are made; the values depend on the device's own generator.

    Raises:
        ValueError: `latent_dim` is not positive, or the distribution is not one of the two.
    """

    def __init__(
        self,
        latent_dim: int,
        distribution: Literal["normal", "uniform"] = "normal",
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if latent_dim < 1:
            raise ValueError(f"latent_dim must be at least 1, not {latent_dim}")
        if distribution not in ("normal", "uniform"):
            raise ValueError(f"distribution must be normal or uniform, not {distribution}")
        self.latent_dim = latent_dim
        self.distribution = distribution
        self.seed = seed
        self.device = torch.device(device)
        self.dtype = dtype
        self.generator = stream(seed, "latents", device)

    def renew(self, index: int) -> None:
        """Draw training latents from another stream of the same seed, the `index`-th, from now on."""
        self.generator = stream(self.seed, "latents", self.device, index)

    def sample(self, n: int) -> Tensor:
        """Draw the next `n` training latents, `(n, latent_dim)`."""
        return self._draw(n, self.generator)

    def fixed(self, n: int) -> Tensor:
        """Return the same `n` latents at every call, `(n, latent_dim)`, without moving the training stream."""
        return self._draw(n, stream(self.seed, "fixed latents", self.device))

    def _draw(self, n: int, generator: torch.Generator) -> Tensor:
        z = torch.empty(n, self.latent_dim, device=self.device, dtype=self.dtype)
        if self.distribution == "normal":
            return z.normal_(generator=generator)
        return z.uniform_(-1, 1, generator=generator)
