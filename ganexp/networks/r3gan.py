"""R3GAN's networks (Huang et al. 2024, "The GAN is dead; long live the GAN!", section 3 and its figure 3).

ResNeXt-like bottlenecks (1×1, grouped 3×3, 1×1 convolution) without normalisation; leaky ReLU; resampling by bilinear
interpolation outside the residual branches; weights initialised as in Fixup (Zhang et al. 2019): each branch's last layer
starts at 0, and its others start smaller the more blocks there are. The discriminator mirrors the generator.

With `width` 768, stages, channels and groups are the authors': 768 channels up to 32×32, then half as many at each doubling;
inside a block twice as many as outside, in groups of 16. The authors' networks are for 32, 64 and 256 pixels (CIFAR-10 and
FFHQ).

Departures: other powers of two continue their plan; groups are smaller where 16 does not divide the channels of a block.
"""

import math
from typing import TypeVar

import torch
from torch import Tensor, nn

from ganexp.networks.conditions import ConcatenatedEmbedding, Projection
from ganexp.networks.resampling import Down, Up
from ganexp.networks.sizes import Depth, Width, doublings, first_map
from ganexp.ranges import checked

Layer = TypeVar("Layer", nn.Conv2d, nn.Linear)
SLOPE = 0.2
GAIN = math.sqrt(2 / (1 + SLOPE**2))
"""The gain that preserves the second moment through a leaky ReLU (He et al. 2015)."""


class R3GANGenerator(nn.Module):
    """A learnt 4×4 map per channel, weighted by z; stages of blocks, with the side doubled in between; a 1×1 convolution.

    The output is linear, as in the authors' code: images lie around [-1, 1] and are clamped only to be shown.

    Args:
        latent_dim: Length of a latent vector; 64 in the paper.
        shape: `(C, H, W)` with sides of 16, 32, 64, …
        width: Channels up to 32×32; 768 in the paper.
        blocks: Blocks of each stage; 2 in the paper.
        classes: Latents are followed by a learnt vector of their class, of the same length; as in the authors' code, it starts
            from N(0, 1/classes).
    """

    @checked
    def __init__(
        self, latent_dim: int, shape: tuple[int, ...], *, width: Width = 768, blocks: Depth = 2, classes: int = 0
    ) -> None:
        super().__init__()
        self.condition = ConcatenatedEmbedding(classes, latent_dim) if classes else None
        if self.condition is not None:
            nn.init.normal_(self.condition.embedding.weight, 0.0, classes**-0.5)
            latent_dim *= 2
        first, *others = _channels(shape, width)
        total, before = blocks * (1 + len(others)), first
        self.basis = nn.Parameter(torch.randn(first, *first_map(shape)))
        self.linear = _scaled(nn.Linear(latent_dim, first, bias=False))
        layers: list[nn.Module] = _stage(first, blocks, total)
        for after in others:
            layers += [*_changed(before, after), Up(), *_stage(after, blocks, total)]
            before = after
        self.layers = nn.Sequential(*layers, _scaled(nn.Conv2d(before, shape[0], 1, bias=False)))

    def forward(self, z: Tensor, *labels: Tensor) -> Tensor:
        z = z if self.condition is None else self.condition(z, *labels)
        return self.layers(self.basis * self.linear(z)[:, :, None, None])


class R3GANDiscriminator(nn.Module):
    """A 1×1 convolution; stages of blocks, with the side halved in between; a weighted sum of each 4×4 map; one logit.

    Args:
        shape: `(C, H, W)` with sides of 16, 32, 64, …
        width: Channels up to 32×32; 768 in the paper.
        blocks: Blocks of each stage; 2 in the paper.
        classes: With classes, the linear layer has `width` outputs instead of one, and the logit is their inner product with a
            learnt vector of the class, and nothing else. As in the authors' code, the vectors start from N(0, 1/(width ·
            classes)).
    """

    output = "logit"

    @checked
    def __init__(self, shape: tuple[int, ...], *, width: Width = 768, blocks: Depth = 2, classes: int = 0) -> None:
        super().__init__()
        first, *others = reversed(_channels(shape, width))
        total, before = blocks * (1 + len(others)), first
        layers: list[nn.Module] = [_scaled(nn.Conv2d(shape[0], first, 1, bias=False)), *_stage(first, blocks, total)]
        for after in others:
            layers += [Down(), *_changed(before, after), *_stage(after, blocks, total)]
            before = after
        layers += [_scaled(nn.Conv2d(before, before, first_map(shape), groups=before, bias=False)), nn.Flatten(1)]
        self.layers = nn.Sequential(*layers)
        self.linear = _scaled(nn.Linear(before, before if classes else 1, bias=False))
        self.projection = Projection(classes, before) if classes else None
        if self.projection is not None:
            nn.init.normal_(self.projection.embedding.weight, 0.0, (before * classes) ** -0.5)

    def forward(self, x: Tensor, *labels: Tensor) -> Tensor:
        features = self.linear(self.layers(x))
        return features.flatten(0) if self.projection is None else self.projection(features, *labels)


class Bottleneck(nn.Module):
    """`x` plus 1×1, leaky ReLU, grouped 3×3, leaky ReLU, 1×1; both inner layers have twice the channels, and biases.

    Fixup scales the inner weights by L^(-1/(2m-2)), with m = 3 and L the `total` of blocks of the network.
    """

    def __init__(self, channels: int, total: int) -> None:
        super().__init__()
        inner, gain = 2 * channels, GAIN * total**-0.25
        groups = inner // math.gcd(inner, 16)
        self.residual = nn.Sequential(
            _scaled(nn.Conv2d(channels, inner, 1), gain),
            nn.LeakyReLU(SLOPE),
            _scaled(nn.Conv2d(inner, inner, 3, padding=1, groups=groups), gain),
            nn.LeakyReLU(SLOPE),
            _scaled(nn.Conv2d(inner, channels, 1, bias=False), 0.0),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.residual(x)


def _channels(shape: tuple[int, ...], width: int) -> list[int]:
    """Return the channels of each stage, from 4×4 to the image's side."""
    first_map(shape)  # refuses other shapes
    return [max(1, width >> max(0, done - 3)) for done in range(doublings(shape) + 1)]


def _stage(channels: int, blocks: int, total: int) -> list[nn.Module]:
    return [Bottleneck(channels, total) for _ in range(blocks)]


def _changed(before: int, after: int) -> list[nn.Module]:
    """Return the 1×1 convolution that changes the number of channels, where it changes."""
    return [] if before == after else [_scaled(nn.Conv2d(before, after, 1, bias=False))]


def _scaled(layer: Layer, gain: float = 1.0) -> Layer:
    """Return a layer with new weights from N(0, gain²/fan_in), and its bias at 0."""
    nn.init.normal_(layer.weight, 0.0, gain / math.sqrt(layer.weight[0].numel()))
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
