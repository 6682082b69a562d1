"""A trained generator, ready to use."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ganexp.batch import Batch
from ganexp.sampling.errors import SamplingError
from ganexp.sampling.latents import latents
from ganexp.streams import undisturbed

AT_ONCE = 256
"""How many samples are generated at a time, unless told otherwise."""


@dataclass(frozen=True)
class Origin:
    """Where a generator comes from: plain values, for those who look at its samples later."""

    settings: dict[str, Any] = field(default_factory=dict)
    """The configuration that it was trained with, without what belongs to the machine it was trained on."""
    dataset: dict[str, Any] = field(default_factory=dict)
    """The data set's node of that configuration, as it was."""
    iterations: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    """The measurements of the row of that iteration."""


class Trained(nn.Module):
    """A trained generator with its prior, in evaluation mode: maps latents `(B, latent_dim)` to samples.

    Args:
        network: Called as `network(z)`, or `network(z, labels)` if it is conditional.
        latent_dim: Length of one latent vector.
        prior: The distribution of latents, `normal` or `uniform`.
        shape: Of one sample: `(C, H, W)` for images in [-1, 1], `(2,)` for points.
        classes: How many classes it was conditioned on; 0 is none.
        device, dtype: Where it computes, and in which precision.
        origin: Where it comes from.
    """

    _where: Tensor

    def __init__(
        self,
        network: nn.Module,
        *,
        latent_dim: int,
        prior: str,
        shape: Sequence[int],
        classes: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        origin: Origin | None = None,
    ) -> None:
        super().__init__()
        self.network = network.to(device, dtype)
        self.register_buffer("_where", torch.empty(0, device=device, dtype=dtype), persistent=False)  # moves with the network
        self.requires_grad_(False).eval()
        self.latent_dim = latent_dim
        self.prior = prior
        self.shape = tuple(shape)
        self.classes = classes
        self.origin = origin or Origin()

    @property
    def device(self) -> torch.device:
        """Where it computes, also after `to`."""
        return self._where.device

    @property
    def dtype(self) -> torch.dtype:
        """In which precision it computes, also after `to`, `double` and the like."""
        return self._where.dtype

    def forward(self, z: Tensor, *conditions: Tensor) -> Tensor:
        """Generate samples, images in [-1, 1], from latents `(B, latent_dim)` and what they are conditioned on."""
        return self.network(z, *conditions)

    def sample(
        self, n: int, seed: int = 0, *, label: int | None = None, truncation: float | None = None, first: int = 0
    ) -> Tensor:
        """Generate the samples `first` to `first + n - 1` of a seed, `(n, …)`.

        The same index gives the same sample, wherever and beside however many others it is generated: its latent is the same to
        the last bit, and the network's output is the same up to rounding, which may depend on the batch. (A network that draws
        random numbers of its own draws the same ones for the same batch.)

        Args:
            n: How many.
            seed: The seed of the latents.
            label: The class of all samples, for a conditional generator; by default classes take turns: index modulo classes.
            truncation: The bound of each latent's coordinates, for more typical and less varied samples; by default none.
            first: The index of the first one.

        Raises:
            SamplingError: `n`, the class or the truncation is out of range, or the latents are not normal and so cannot be
                truncated.
        """
        if n < 1:
            raise SamplingError(f"n should be 1 or more samples, not {n}")
        return torch.cat([*self.batches(range(first, first + n), seed, label=label, truncation=truncation)])

    def batches(
        self,
        indices: Sequence[int],
        seed: int = 0,
        *,
        label: int | None = None,
        truncation: float | None = None,
        batch_size: int = AT_ONCE,
    ) -> Iterator[Tensor]:
        """Generate the samples of indices batch by batch, as in `sample`; only one batch is in memory at a time."""
        for some in in_batches(indices, batch_size):
            yield self.generate(self.latents(some, seed, label=label, truncation=truncation), seed)

    def latents(
        self, indices: Sequence[int], seed: int = 0, *, label: int | None = None, truncation: float | None = None
    ) -> Batch:
        """Return the latents of indices, `(N, latent_dim)`, with the class of each if the generator is conditional."""
        values = latents(indices, self.latent_dim, self.prior, seed=seed, truncation=truncation)
        return Batch(values.to(self.device, self.dtype), self.labels(indices, label))

    def labels(self, indices: Sequence[int], label: int | None = None) -> tuple[Tensor, ...]:
        """Return what the samples of indices are conditioned on: the class of each, `(N,)`, or nothing.

        Raises:
            SamplingError: The generator has no such class.
        """
        if label is not None and not self.classes:
            raise SamplingError(f"the generator is unconditional: there is no class {label} to choose, so leave the label out")
        if label is not None and not 0 <= label < self.classes:
            raise SamplingError(f"label should be one of {self.classes} classes, counted from 0, not {label}")
        if not self.classes:
            return ()
        return (torch.tensor([index % self.classes if label is None else label for index in indices], device=self.device),)

    def generate(self, z: Batch, seed: int = 0) -> Tensor:
        """Generate one sample per latent, `(N, …)`, moving no random stream.

        Raises:
            SamplingError: The samples are not finite.
        """
        with torch.no_grad(), undisturbed(self.device, seed):  # for generators that draw noise of their own
            made = self(z.values, *z.conditions)
        if not made.isfinite().all():
            raise SamplingError("the generator makes samples that are not finite: take an earlier checkpoint")
        return made

    @property
    def how(self) -> dict[str, Any]:
        """How latents are obtained if not straight from the prior: plain values that tell samples apart."""
        return {}

    @property
    def digest(self) -> str:
        """What tells one generator's weights from another's."""
        return digest_of(self.network.state_dict())


def in_batches(indices: Sequence[int], batch_size: int = AT_ONCE) -> Iterator[Sequence[int]]:
    """Split indices into batches, the last of which may be smaller.

    Raises:
        SamplingError: The batch size is not positive.
    """
    if batch_size < 1:
        raise SamplingError(f"the batch size should be 1 or more, not {batch_size}")
    for start in range(0, len(indices), batch_size):
        yield indices[start : start + batch_size]


def digest_of(weights: Mapping[str, Tensor]) -> str:
    """Return a hash of tensors by name: of their names, types, shapes and values."""
    told = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        told.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        told.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return told.hexdigest()
