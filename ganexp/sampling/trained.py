"""A trained generator, ready to use, and its latents by index: each a function of (seed, index) alone."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.init import trunc_normal_

from ganexp.batch import Batch
from ganexp.facts import UserError
from ganexp.printable import printable
from ganexp.streams import stream, undisturbed

AT_ONCE = 256
"""The default number of samples in a batch."""
DIRECTIONS = ("a_to_b", "b_to_a")
"""The two modules of a generator of both directions."""
STYLES = 10_000
"""The number of latents over which styles are averaged."""


@dataclass(frozen=True)
class Origin:
    """The origin of a generator, as plain values that are stored with its samples."""

    settings: dict[str, Any] = field(default_factory=dict)
    """The configuration that it was trained with, without what belongs to the machine it was trained on."""
    dataset: dict[str, Any] = field(default_factory=dict)
    """The data set's node of that configuration, unchanged."""
    iterations: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    """The measurements of the row of that iteration."""
    class_names: tuple[str, ...] = ()
    """The names of its classes, in their order; empty if they have none."""
    weights: str = ""
    """Which weights of its run it has, in words; empty if that is not known."""


class Trained(nn.Module):
    """A trained generator with its prior, in evaluation mode: maps latents `(B, latent_dim)`, or sources, to samples.

    Args:
        network: Called as `network(z)`, or `network(z, labels)` if it is conditional; a translator as `network(source)`.
        latent_dim: Length of a latent vector.
        prior: The distribution of latents, `normal` or `uniform`.
        shape: Shape of a sample: `(C, H, W)` for images in [-1, 1], `(2,)` for points.
        classes: Number of classes, 0 for none.
        device, dtype: Of its weights.
        origin: Its training.
        source_shape: Shape of a source, `(C, H, W)`, for a translator, which has no latents; empty for any other generator.
        source_ranges: Black and white in files of more than eight bits that sources are read from, or None; for each direction.
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
        source_shape: Sequence[int] = (),
        source_ranges: Sequence[tuple[float, float] | None] = (),
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
        self.source_shape = tuple(source_shape)
        self.source_ranges = tuple(source_ranges)
        self.decode: Callable[[Tensor], Tensor] | None = None
        """Makes images in [-1, 1] of samples that are latents; the commands set it."""
        self.picture_shape = self.shape
        """Shape of one of `pictures`."""

    def given(self) -> dict[str, Any]:
        """Return the constructor's arguments for a generator of the same samples from other latents."""
        names = ("latent_dim", "prior", "shape", "classes", "device", "dtype", "origin")
        return {name: getattr(self, name) for name in names}

    def pictures(self, samples: Tensor) -> Tensor:
        """Return the images of samples: the samples themselves, or decoded latents."""
        return samples if self.decode is None else self.decode(samples)

    @property
    def device(self) -> torch.device:
        """The device of the network, also after `to`."""
        return self._where.device

    @property
    def dtype(self) -> torch.dtype:
        """The type in which the network computes, also after `to`, `double` and the like."""
        return self._where.dtype

    def forward(self, z: Tensor, *conditions: Tensor) -> Tensor:
        """Generate samples, images in [-1, 1], from latents `(B, latent_dim)` or sources, and what they are conditioned on."""
        return self.network(z, *conditions)

    def sample(
        self, n: int, seed: int = 0, *, label: int | str | None = None, truncation: float | None = None, first: int = 0
    ) -> Tensor:
        """Generate the samples `first` to `first + n - 1` of a seed, `(n, …)`.

        The sample of an index does not depend on the others: its latent is the same to the last bit, and the network's output
        up to rounding, which may depend on the batch. (A network that draws random numbers draws the same ones for the same
        batch.)

        Args:
            n: The number of samples.
            seed: The seed of the latents.
            label: The class of all samples, for a conditional generator, by its number or its name (a text that is no name is
                read as a number); by default classes take turns: index modulo classes.
            truncation: For more typical and less varied samples; by default none. With styles, it is ψ of `truncated`, 1 for
                none; otherwise the bound of each latent's coordinates.
            first: The index of the first sample.
        """
        if n < 1:
            raise UserError(f"n should be 1 or more samples, not {n}")
        return torch.cat([*self.batches(range(first, first + n), seed, label=label, truncation=truncation)])

    def batches(
        self,
        indices: Sequence[int],
        seed: int = 0,
        *,
        label: int | str | None = None,
        truncation: float | None = None,
        batch_size: int = AT_ONCE,
    ) -> Iterator[Tensor]:
        """Generate the samples of indices batch by batch, as in `sample`."""
        generator, bound = self.under(truncation)
        for part in in_batches(indices, batch_size):
            yield generator.generate(generator.latents(part, seed, label=label, truncation=bound), seed)

    @property
    def is_two_way(self) -> bool:
        """Whether it is two translators, by its attribute `two_way`: of stacks (a, b) to stacks (F(b), G(a))."""
        return bool(getattr(self.network, "two_way", False))

    def one_way(self, direction: str) -> "Trained":
        """Return one of two translators: `a_to_b`, which is G, or `b_to_a`, F; it is called on images, `(B, C, H, W)`."""
        if not self.is_two_way:
            raise UserError("the generator has one direction: call it as it is")
        if direction not in DIRECTIONS:
            raise UserError(f"direction should be {' or '.join(DIRECTIONS)}, not {direction}")
        shape = (self.source_shape[0] // 2, *self.source_shape[1:])
        ranges = self.source_ranges[DIRECTIONS.index(direction) :][:1]
        given = self.given() | {"shape": shape, "source_shape": shape, "source_ranges": ranges}
        return Trained(getattr(self.network, direction), **given)

    @property
    def sides_divisible_by(self) -> int:
        """The number that has to divide the sides of a source, by the network's attribute of this name."""
        return int(getattr(self.network, "sides_divisible_by", 1))

    @property
    def smallest_side(self) -> int:
        """The smallest side of a source, by the network's attribute of this name."""
        return int(getattr(self.network, "smallest_side", 1))

    @property
    def has_styles(self) -> bool:
        """Whether the network has styles, by its methods `styles` and `synthesis`."""
        return hasattr(self.network, "styles") and hasattr(self.network, "synthesis")

    def truncated(self, psi: float) -> "Trained":
        """Return the generator with its styles w moved to w̄ + ψ (w − w̄) (Karras et al. 2019, StyleGAN, appendix B).

        w̄ is the mean over 10,000 latents, and over classes alike. Departure: the authors keep a moving average in training.

        Args:
            psi: ψ: 1 changes nothing, 0 leaves the one image of w̄.
        """
        if not self.has_styles:
            raise UserError("the generator has no styles: leave truncation out, and truncate the latents it is given")
        if not math.isfinite(psi):
            raise UserError(f"truncation should be a finite number, such as 0.7, not {psi}")
        return Truncated(self, psi)

    def under(self, truncation: float | None) -> "tuple[Trained, float | None]":
        """Return the generator of truncated samples, and the bound of its latents."""
        return (self.truncated(truncation), None) if self.has_styles and truncation is not None else (self, truncation)

    @cached_property
    def mean_style(self) -> Tensor:
        """The mean of the styles of each layer, `(layers, n)`."""
        indices, rng, total = range(STYLES), stream(0, "mean of styles"), torch.zeros((), dtype=torch.float64)
        network: Any = self.network
        with torch.no_grad(), undisturbed(self.device):
            for part in in_batches(indices):
                z = one_latent(rng, len(part) * self.latent_dim, self.prior).view(len(part), -1)
                total = total + network.styles(z.to(self.device, self.dtype), *self.labels(part)).sum(0).double().cpu()
        return total / STYLES

    def latents(
        self, indices: Sequence[int], seed: int = 0, *, label: int | str | None = None, truncation: float | None = None
    ) -> Batch:
        """Return the latents of indices, `(N, latent_dim)`, with the class of each if the generator is conditional."""
        if self.source_shape:
            raise UserError("the generator is a translator, and has no latents: call it on sources, G(sources)")
        if truncation is not None and self.has_styles:
            raise UserError(f"styles are truncated, not latents: take truncated({truncation}), or leave truncation out")
        values = latents(indices, self.latent_dim, self.prior, seed=seed, truncation=truncation)
        return Batch(values.to(self.device, self.dtype), self.labels(indices, label))

    def labels(self, indices: Sequence[int], label: int | str | None = None) -> tuple[Tensor, ...]:
        """Return what the samples of indices are conditioned on: the class of each, `(N,)`, or nothing."""
        chosen = self.number_of(label)
        if not self.classes:
            return ()
        return (torch.tensor([index % self.classes if chosen is None else chosen for index in indices], device=self.device),)

    def number_of(self, label: int | str | None) -> int | None:
        """Return the number of a class, counted from 0, that is given by its number or its name; None for none."""
        if label is None:
            return None
        shown, names = printable(label), self.origin.class_names
        if not self.classes:
            raise UserError(f"the generator is unconditional: there is no class {shown} to choose, so leave the label out")
        if label in names:
            return names.index(str(label))
        try:
            number = int(label)
        except ValueError:
            number = -1
        if not 0 <= number < self.classes:
            named = f", or one of {', '.join(map(printable, names[:20]))}{' …' * (len(names) > 20)}" if names else ""
            raise UserError(f"label should be one of {self.classes} classes, counted from 0{named}, not {shown}")
        return number

    def generate(self, z: Batch, seed: int = 0) -> Tensor:
        """Generate a sample for each latent, `(N, …)`, all of them finite, without advancing a global random stream."""
        with torch.no_grad(), undisturbed(self.device, seed):  # for generators that draw noise of their own
            samples = self(z.values, *z.conditions)
        if not samples.isfinite().all():
            raise UserError("the generator makes samples that are not finite: take an earlier checkpoint")
        return samples

    @property
    def how(self) -> dict[str, Any]:
        """The choice of latents, as plain values; empty if they are drawn from the prior."""
        return {}

    @property
    def digest(self) -> str:
        """The digest of the generator's weights."""
        return weights_digest(self.network.state_dict())


class Truncated(Trained):
    """A generator whose styles are truncated by ψ: see `Trained.truncated`."""

    def __init__(self, trained: Trained, psi: float) -> None:
        super().__init__(TowardsMean(trained.network, trained.mean_style, psi), **trained.given())
        self.decode, self.picture_shape = trained.decode, trained.picture_shape

    @property
    def how(self) -> dict[str, Any]:
        """The value of ψ, which distinguishes its samples from those of truncated latents."""
        return {"truncated": "styles"}


class TowardsMean(nn.Module):
    """A network with styles, which moves towards their mean: `(layers, n)`."""

    mean: Tensor

    def __init__(self, network: Any, mean: Tensor, psi: float) -> None:
        super().__init__()
        self.network = network
        self.psi = psi
        self.register_buffer("mean", mean)

    def forward(self, z: Tensor, *conditions: Tensor) -> Tensor:
        """Map latents, and what they are conditioned on, to samples."""
        moved: Tensor = self.network.synthesis(torch.lerp(self.mean, self.network.styles(z, *conditions), self.psi))
        return moved


def latents(indices: Iterable[int], latent_dim: int, prior: str, *, seed: int, truncation: float | None = None) -> Tensor:
    """Draw the latents of indices, `(N, latent_dim)`, in float64 on the CPU.

    Each index has a random stream of its own, so that its latent depends neither on the batch nor on the device.

    Args:
        indices: Indices, counted from 0.
        latent_dim: Length of a latent vector.
        prior: `normal`, or `uniform` on (-1, 1).
        seed: The seed of the series.
        truncation: Draw again each coordinate whose absolute value exceeds this bound (the truncation trick of BigGAN: Brock,
            Donahue & Simonyan 2019, section 3.1). Only for a normal prior.
    """
    if truncation is not None and prior != "normal":
        raise UserError(f"truncation is for normal latents, and these are {prior}: leave it out")
    if truncation is not None and not (math.isfinite(truncation) and truncation > 0):
        raise UserError(f"truncation should be a bound above 0, such as 0.5, not {truncation}")
    if not 0 <= seed < 2**63:
        raise UserError(f"seed should be 0 or more, and below 2⁶³, not {seed}")
    drawn = []
    for index in indices:
        if not 0 <= index < 2**63:
            raise UserError(f"samples are counted from 0: there is none at {index}")
        drawn.append(one_latent(stream(seed, "samples", index=index), latent_dim, prior, truncation))
    return torch.stack(drawn) if drawn else torch.empty(0, latent_dim, dtype=torch.float64)


def one_latent(rng: torch.Generator, latent_dim: int, prior: str, truncation: float | None = None) -> Tensor:
    """Draw the next latent of a stream, `(latent_dim,)`, in float64 on the CPU."""
    z = torch.empty(latent_dim, dtype=torch.float64)
    if truncation is not None:
        return trunc_normal_(z, a=-truncation, b=truncation, generator=rng)
    return z.normal_(generator=rng) if prior == "normal" else z.uniform_(-1, 1, generator=rng)


def in_batches(indices: Sequence[int], batch_size: int = AT_ONCE) -> Iterator[Sequence[int]]:
    """Split indices into batches, the last of which may be smaller."""
    if batch_size < 1:
        raise UserError(f"the batch size should be 1 or more, not {batch_size}")
    for start in range(0, len(indices), batch_size):
        yield indices[start : start + batch_size]


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of the names, types, shapes and values of tensors, sorted by name.

    Exported files are checked against it, so its bytes stay; features have `evaluation.features.features_checksum`.
    """
    content = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        content.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        content.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return content.hexdigest()
