"""Latents by index: each a function of (seed, index) alone, whatever is drawn beside it, and on whatever device."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn.init import trunc_normal_

from ganexp.sampling.errors import SamplingError
from ganexp.streams import stream


def latents(indices: Iterable[int], latent_dim: int, prior: str, *, seed: int, truncation: float | None = None) -> Tensor:
    """Draw the latents of indices, `(N, latent_dim)`, in float64 on the CPU.

    Each comes from a random stream of its own, so that it depends neither on the batch it is drawn in nor on the device that it
    will be used on.

    Args:
        indices: Which ones, counted from 0.
        latent_dim: The length of each.
        prior: `normal`, or `uniform` on (-1, 1).
        seed: Tells one series of latents from another.
        truncation: Draw again each coordinate whose absolute value exceeds this bound (the truncation trick of BigGAN: Brock,
            Donahue & Simonyan 2019, section 3.1). Only for a normal prior.

    Raises:
        SamplingError: The seed, an index or the truncation is out of range, or the prior cannot be truncated.
    """
    if truncation is not None and prior != "normal":
        raise SamplingError(f"truncation is for normal latents, and these are {prior}: leave it out")
    if truncation is not None and not (math.isfinite(truncation) and truncation > 0):
        raise SamplingError(f"truncation should be a bound above 0, such as 0.5, not {truncation}")
    if not 0 <= seed < 2**63:
        raise SamplingError(f"seed should be 0 or more, and below 2⁶³, not {seed}")
    drawn = []
    for index in indices:
        if not 0 <= index < 2**63:
            raise SamplingError(f"samples are counted from 0: there is none at {index}")
        drawn.append(one_latent(stream(seed, "samples", index=index), latent_dim, prior, truncation))
    return torch.stack(drawn) if drawn else torch.empty(0, latent_dim, dtype=torch.float64)


def one_latent(rng: torch.Generator, latent_dim: int, prior: str, truncation: float | None = None) -> Tensor:
    """Draw the next latent of a stream, `(latent_dim,)`, in float64 on the CPU."""
    z = torch.empty(latent_dim, dtype=torch.float64)
    if truncation is not None:
        return trunc_normal_(z, a=-truncation, b=truncation, generator=rng)
    return z.normal_(generator=rng) if prior == "normal" else z.uniform_(-1, 1, generator=rng)
