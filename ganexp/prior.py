"""The distribution that latents z are drawn from."""

from typing import Annotated, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch
from ganexp.ranges import checked
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

    @checked
    def __init__(
        self,
        latent_dim: Annotated[int, Ge(1)],
        distribution: Literal["normal", "uniform"] = "normal",
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.latent_dim = latent_dim
        self.distribution = distribution
        self.seed = seed
        self.device = torch.device(device)
        self.dtype = dtype
        self.rng = self._stream("latents")

    def reseed(self, index: int) -> None:
        """Draw training latents from another stream of the same seed, the `index`-th, from now on."""
        self.rng = self._stream("latents", index)

    def sample(self, n: int) -> Batch:
        """Draw the next `n` training latents, `(n, latent_dim)`."""
        return Batch(self._draw(n, self.rng))

    def fixed(self, n: int) -> Batch:
        """Return the same `n` latents at every call, `(n, latent_dim)`, without moving the training stream."""
        return Batch(self._draw(n, self._stream("fixed latents")))

    def state_dict(self) -> dict[str, Tensor]:
        """Return the position of the training stream."""
        return {"rng": self.rng.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore the position of the training stream."""
        self.rng.set_state(state["rng"])

    def _stream(self, purpose: str, index: int = 0) -> torch.Generator:
        return stream(self.seed, purpose, self.device, index)

    def _draw(self, n: int, rng: torch.Generator) -> Tensor:
        z = torch.empty(n, self.latent_dim, device=self.device, dtype=self.dtype)
        return z.normal_(generator=rng) if self.distribution == "normal" else z.uniform_(-1, 1, generator=rng)
