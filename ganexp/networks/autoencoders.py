"""Autoencoders as generators: through codes (van den Oord et al. 2017), or a distribution (Kingma & Welling 2014)."""

import itertools
import math
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn
from torch.nn.functional import embedding

from ganexp.distributed.processes import Processes
from ganexp.instruments.scalar import Scalar
from ganexp.networks.sizes import Depth, Width
from ganexp.networks.translator import Translator, check_sides
from ganexp.ranges import checked

SMOOTHING = 1e-5
"""Added to the count of each code, as in the authors' code, to avoid a division by 0."""
SHORTEST = 1e-6
"""The least length of a mean of vectors that has a direction; after thousands of updates without a vector it is shorter."""


class Residual(nn.Module):
    """x + two 3×3 convolutions of x, each after group norm and SiLU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        first, second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.layers = nn.Sequential(*activated(width), first, *activated(width), second)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


def activated(width: int) -> tuple[nn.Module, nn.Module]:
    """Return group norm, in at most 8 groups, and SiLU; they treat each sample by itself."""
    return nn.GroupNorm(math.gcd(width, 8), width), nn.SiLU()


class Autoencoder(Translator):
    """An encoder and a decoder with a residual block each, and a tanh at the end.

    Args:
        source, shape: Shapes of a source and of a sample, `(C, H, W)`, with the same sides, which 2^`depth` divides.
        width: Channels of the outermost layers; each halving doubles them, up to 4 · `width`.
        depth: How often the side is halved.
        encoded, decoded: Channels of the encoder's output and of the decoder's input.
    """

    def __init__(
        self, source: tuple[int, ...], shape: tuple[int, ...], *, width: int, depth: int, encoded: int, decoded: int
    ) -> None:
        super().__init__()
        check_sides(source, shape, depth)
        self.sides_divisible_by = 2**depth
        widths = [width * min(4, 2**i) for i in range(depth)]
        down: list[nn.Module] = []
        for before, after in itertools.pairwise([source[0], *widths]):
            down += [nn.Conv2d(before, after, 4, 2, 1), *activated(after)]
        self.encoder = nn.Sequential(*down, Residual(widths[-1]), *activated(widths[-1]))
        self.to_codes = nn.Conv2d(widths[-1], encoded, 1)
        up: list[nn.Module] = [nn.Conv2d(decoded, widths[-1], 3, padding=1), Residual(widths[-1]), *activated(widths[-1])]
        for before, after in itertools.pairwise(widths[::-1]):
            up += [nn.ConvTranspose2d(before, after, 4, 2, 1), *activated(after)]
        self.decoder = nn.Sequential(*up)
        self.last = nn.ConvTranspose2d(width, shape[0], 4, 2, 1)

    def decode(self, codes: Tensor) -> Tensor:
        """Map codes `(B, decoded, h, w)` to images in [-1, 1]."""
        return self.last(self.decoder(codes)).tanh()

    def latents(self, source: Tensor) -> Tensor:
        """Map sources to the decoder's input, `(B, decoded, h, w)`, before quantisation and without noise."""
        raise NotImplementedError

    def images(self, latents: Tensor) -> Tensor:
        """Map the output of `latents` to images in [-1, 1]."""
        return self.decode(latents)

    def with_terms(self, source: Tensor) -> tuple[Tensor, ...]:
        """Map sources to images, followed by the values `(B,)` of each of `own_terms`."""
        raise NotImplementedError

    def forward(self, source: Tensor) -> Tensor:
        return self.with_terms(source)[0]


class VQ(Autoencoder):
    """The decoder sees the nearest of `codes` vectors at each place; the gradient passes straight through to the encoder.

    Codes are moving averages of the encoder's vectors (van den Oord et al. 2017, appendix A.1). They are updated once for each
    update of G, by the pass before it, and not by a look ahead or by D's passes. A code that no vector chooses does not change.
    Its own term is `commitment`.

    Departure: vectors of the encoder and codes are compared on the unit sphere (Yu et al. 2022, section 3.2), without which few
    codes are used.

    Args:
        source, shape, width, depth: As in `Autoencoder`.
        codes: Number of codes.
        length: Length of a code.
        decay: Decay of the averages.
    """

    own_terms = ("commitment",)
    measures: ClassVar = {
        "codes/used": Scalar("codes with a vector in every 1 / (1 - decay) updates, by averaged counts, which begin at 1"),
        "codes/perplexity": Scalar("exp of the entropy of these counts: how many codes, used alike, have as much"),
    }
    book: Tensor
    counts: Tensor
    sums: Tensor
    seen_counts: Tensor
    seen_sums: Tensor

    @checked
    def __init__(
        self,
        source: tuple[int, ...],
        shape: tuple[int, ...],
        *,
        width: Width = 32,
        depth: Depth = 2,
        codes: Annotated[int, Ge(2), Lt(2**20)] = 256,
        length: Width = 8,
        decay: Annotated[float, Ge(0), Lt(1)] = 0.99,
    ) -> None:
        super().__init__(source, shape, width=width, depth=depth, encoded=length, decoded=length)
        self.decay = decay
        book = nn.functional.normalize(torch.randn(codes, length), dim=1)
        self.register_buffer("book", book)
        self.register_buffer("counts", torch.ones(codes))
        self.register_buffer("sums", book.clone())
        self.register_buffer("seen_counts", torch.zeros(codes), persistent=False)
        self.register_buffer("seen_sums", torch.zeros(codes, length), persistent=False)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Map sources to vectors `(B, h, w, length)` of norm 1, and to the number of the nearest code of each, `(B, h, w)`."""
        z = nn.functional.normalize(self.to_codes(self.encoder(source)).permute(0, 2, 3, 1), dim=3)
        return z, (z @ self.book.T).argmax(3)

    def with_terms(self, source: Tensor) -> tuple[Tensor, ...]:
        """Map sources to images and the squared distance of vectors from their codes, a mean over places and numbers."""
        z, chosen = self.encode(source)
        code = embedding(chosen, self.book)
        if self.training:
            self._see(z.detach().flatten(0, 2), chosen.flatten())
        commitment = (z - code).square().flatten(1).mean(1)
        return self.decode((z + (code - z).detach()).permute(0, 3, 1, 2)), commitment

    def latents(self, source: Tensor) -> Tensor:
        """Map sources to vectors of norm 1, `(B, length, h, w)`."""
        return self.encode(source)[0].permute(0, 3, 1, 2)

    def images(self, latents: Tensor) -> Tensor:
        """Map vectors, which need not be of norm 1, to images, through the code that is nearest to each."""
        return self.decode(embedding((latents.permute(0, 2, 3, 1) @ self.book.T).argmax(3), self.book).permute(0, 3, 1, 2))

    @torch.no_grad()
    def _see(self, z: Tensor, chosen: Tensor) -> None:
        self.seen_counts.zero_().index_add_(0, chosen, torch.ones_like(z[:, 0]).to(self.counts))
        self.seen_sums.zero_().index_add_(0, chosen, z.to(self.sums))

    @torch.no_grad()
    def advance(self, processes: Processes) -> None:
        """Update the codebook by the vectors of the last pass in all processes."""
        counts, sums = processes.sum((self.seen_counts, self.seen_sums))
        assert counts is not None
        assert sums is not None
        self.counts.lerp_(counts.to(self.counts), 1 - self.decay)
        self.sums.lerp_(sums.to(self.sums), 1 - self.decay)
        total = self.counts.sum()
        smoothed = (self.counts + SMOOTHING) / (total + len(self.counts) * SMOOTHING) * total
        means = self.sums / smoothed.unsqueeze(1)
        directed = means.norm(dim=1, keepdim=True) > SHORTEST
        self.book.copy_(torch.where(directed, nn.functional.normalize(means, dim=1), self.book))

    def measurements(self) -> dict[str, Tensor]:
        """Return the scalars that `measures` declares, for all processes."""
        shares = self.counts / self.counts.sum()
        return {
            "codes/used": (self.counts >= 1 - self.decay).sum(),
            "codes/perplexity": torch.special.entr(shares).sum().exp(),
        }


class VAE(Autoencoder):
    """The decoder sees a sample of the normal distribution that the encoder predicts at each place; its own term is `kl`.

    In evaluation it sees the mean.

    Args:
        source, shape, width, depth: As in `Autoencoder`.
        length: Length of a latent at each place.
        noise: Whether latents are sampled; without noise it is a plain autoencoder of the means.
    """

    own_terms = ("kl",)

    @checked
    def __init__(
        self,
        source: tuple[int, ...],
        shape: tuple[int, ...],
        *,
        width: Width = 32,
        depth: Depth = 3,
        length: Width = 8,
        noise: bool = True,
    ) -> None:
        super().__init__(source, shape, width=width, depth=depth, encoded=2 * length, decoded=length)
        self.noise = noise

    @property
    def draws(self) -> str:
        """The setting that stops it from drawing random numbers in training."""
        return "generator.noise=false" if self.noise else ""

    def latents(self, source: Tensor) -> Tensor:
        """Map sources to the means of their distributions, `(B, length, h, w)`."""
        return self.to_codes(self.encoder(source)).chunk(2, 1)[0]

    def with_terms(self, source: Tensor) -> tuple[Tensor, ...]:
        """Map sources to images and the divergence from N(0, 1), in nats, summed over places and numbers."""
        mean, log_variance = self.to_codes(self.encoder(source)).chunk(2, 1)
        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).flatten(1).sum(1)
        z = mean
        if self.noise and self.training:
            z = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        return self.decode(z), kl
