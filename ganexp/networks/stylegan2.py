"""StyleGAN2's networks (Karras et al. 2020, sections 2 to 4), for images whose sides are powers of two from 16.

With `width` 512, `base` 32768 and `latent_dim` 512 they are config F of the paper; with `base` 16384 those of ADA's paper for
256×256; with `depth` 2 and `style_mixing` 0 in G, and `residual` false in D, those of ADA's paper for CIFAR-10. Sizes,
initialisation and gains are those of the authors' second implementation, for PyTorch, but in plain layers.

Departures: images that are not square start from a map that is not square either; each sample has its own crossover of styles;
groups of the minibatch deviation are neighbours; activations are not clamped to [-256, 256], which keeps the authors' 16-bit
floats from overflowing and does not concern bfloat16; there is no moving average of styles: `ganexp.sampling` computes the mean
that it truncates towards.
"""

import itertools
import math
from typing import Annotated, TypeVar

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from ganexp.networks.minibatch_deviation import MinibatchDeviation
from ganexp.networks.resampling import Down, Filter, Up
from ganexp.networks.sizes import Depth, Width, doublings, first_map
from ganexp.ranges import checked

Layer = TypeVar("Layer", nn.Conv2d, nn.Linear, nn.Embedding)
Base = Annotated[int, Ge(1), Le(2**24)]
EPSILON = 1e-8


class StyleGAN2Generator(nn.Module):
    """A mapping network from latents to styles; modulated 3×3 convolutions that double a learnt map; a sum of RGB images.

    In training, noise is drawn anew for each image; in evaluation it is the same for all, so that samples are functions of
    their latents. The output is linear: images lie around [-1, 1] and are clamped only to be shown.

    Args:
        latent_dim: Length of a latent vector; 512 in the paper.
        shape: `(C, H, W)` with sides of 16, 32, 64, …
        width: Maximum channels of a map, and length of a style; 512 in the paper.
        base: Maps of side s have `base`/s channels where that is less than `width`; s is the shorter side.
        depth: Layers of the mapping network; 8 in the paper.
        style_mixing: Probability, in training, that layers from a random one on have the style of another latent vector.
        noise: Whether noise of a learnt strength, 0 at first, is added after each 3×3 convolution.
        classes: Latents are followed by a learnt vector of their class, as long as a style.
    """

    @checked
    def __init__(
        self,
        latent_dim: int,
        shape: tuple[int, ...],
        *,
        width: Width = 512,
        base: Base = 32_768,
        depth: Depth = 8,
        style_mixing: Annotated[float, Ge(0), Le(1)] = 0.9,
        noise: bool = True,
        classes: int = 0,
    ) -> None:
        super().__init__()
        height, side = first_map(shape)
        first, *others = _channels(shape, width, base)
        self.style_mixing = style_mixing
        self.noise = noise
        self.mapping = Mapping(latent_dim, width, depth, classes)
        self.start = nn.Parameter(torch.randn(first, height, side))
        self.convolutions = nn.ModuleList([StyledConvolution(first, first, width, (height, side), noise=noise)])
        self.to_rgb = nn.ModuleList([ModulatedConvolution(first, shape[0], width, 1, demodulate=False)])
        for before, after in itertools.pairwise([first, *others]):
            height, side = 2 * height, 2 * side
            self.convolutions.append(StyledConvolution(before, after, width, (height, side), noise=noise, up=True))
            self.convolutions.append(StyledConvolution(after, after, width, (height, side), noise=noise))
            self.to_rgb.append(ModulatedConvolution(after, shape[0], width, 1, demodulate=False))
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(shape[0], 1, 1)) for _ in self.to_rgb])
        self.up = Up()

    @property
    def draws(self) -> str:
        """Settings that stop it from drawing random numbers in training; empty if it draws none."""
        return " ".join(["noise=false"] * self.noise + ["style_mixing=0"] * (self.style_mixing > 0))

    def forward(self, z: Tensor, *labels: Tensor) -> Tensor:
        return self.synthesis(self.styles(z, *labels))

    def styles(self, z: Tensor, *labels: Tensor) -> Tensor:
        """Map latents to the styles of every layer, `(B, layers, width)`; in training they are mixed."""
        count = len(self.convolutions) + 1
        styles = self.mapping(z, *labels)[:, None].expand(-1, count, -1)
        if not self.training or self.style_mixing == 0:
            return styles
        others = self.mapping(torch.randn_like(z), *labels)[:, None]
        drawn = torch.rand(2, len(z), 1, 1, device=z.device)
        mixed = drawn[0] < self.style_mixing
        crossover = 1 + (drawn[1] * (count - 1)).floor()  # from 1 to count - 1
        layers = torch.arange(count, device=z.device)[:, None]
        return torch.where(mixed & (layers >= crossover), others, styles)

    def synthesis(self, styles: Tensor) -> Tensor:
        """Map styles `(B, layers, width)` to images."""
        h = self.convolutions[0](self.start.expand(styles.shape[0], -1, -1, -1), styles[:, 0])
        image = self.to_rgb[0](h, styles[:, 1]) + self.biases[0]
        for i, (to_rgb, bias) in enumerate(zip(self.to_rgb[1:], self.biases[1:], strict=True)):
            layer = 2 * i + 1
            h = self.convolutions[layer](h, styles[:, layer])
            h = self.convolutions[layer + 1](h, styles[:, layer + 1])
            image = self.up(image) + to_rgb(h, styles[:, layer + 2]) + bias
        return image


class StyleGAN2Discriminator(nn.Module):
    """A 1×1 convolution; residual blocks that halve the side; the minibatch deviation; a 3×3 convolution and two linear layers.

    Args:
        shape: `(C, H, W)` with sides of 16, 32, 64, …
        width: Maximum channels of a map; 512 in the paper.
        base: As in the generator.
        residual: Whether blocks have a shortcut; not in ADA's paper for CIFAR-10.
        minibatch_deviation: Whether the last convolution also sees how much the batch varies, by `MinibatchDeviation`.
        group: Images per group of the minibatch deviation.
        depth: Layers of the mapping network for the labels of a conditional GAN; 8 in ADA's paper.
        classes: With classes, the last layer has as many outputs as channels; the logit is their inner product with a vector
            that a mapping network makes from the label, divided by the square root of the vector's length.
    """

    output = "logit"

    @checked
    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        width: Width = 512,
        base: Base = 32_768,
        residual: bool = True,
        minibatch_deviation: bool = True,
        group: Annotated[int, Ge(2)] = 4,
        depth: Depth = 8,
        classes: int = 0,
    ) -> None:
        super().__init__()
        height, side = first_map(shape)
        *others, last = reversed(_channels(shape, width, base))
        self.register_module("mapping", None)  # before the last layer, which mixed precision finds by its place
        self.from_rgb = nn.Sequential(equalized(nn.Conv2d(shape[0], [*others, last][0], 1)), Leaky())
        self.blocks = nn.Sequential(*(Block(a, b, residual) for a, b in itertools.pairwise([*others, last])))
        self.end = nn.Sequential(
            *([MinibatchDeviation(group=group)] if minibatch_deviation else []),
            equalized(nn.Conv2d(last + minibatch_deviation, last, 3, padding=1)),
            Leaky(),
            nn.Flatten(1),
            equalized(nn.Linear(last * height * side, last)),
            Leaky(),
            equalized(nn.Linear(last, last if classes else 1)),
        )
        if classes:
            self.mapping = Mapping(0, last, depth, classes)

    def forward(self, x: Tensor, *labels: Tensor) -> Tensor:
        outputs = self.end(self.blocks(self.from_rgb(x)))
        if self.mapping is None:
            return outputs.flatten(0)
        vectors = self.mapping(outputs[:, :0], *labels)
        return (outputs * vectors).sum(1) / math.sqrt(vectors.shape[1])


class Mapping(nn.Module):
    """Maps latents, labels or both to styles: scales each to a mean square of 1, then applies linear layers with leaky ReLU.

    Args:
        latent_dim: Length of a latent vector; 0 for labels alone.
        width: Length of a style, and of every hidden layer.
        depth: Number of layers, which learn at a hundredth of the learning rate.
        classes: Number of labels, each with a learnt vector; 0 for none.
    """

    def __init__(self, latent_dim: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.embedding = equalized(nn.Embedding(classes, width)) if classes else None
        self.bias = nn.Parameter(torch.zeros(width)) if classes else None
        sizes = [latent_dim + (width if classes else 0), *[width] * depth]
        layers = ((equalized(nn.Linear(a, b), rate=0.01), Leaky()) for a, b in itertools.pairwise(sizes))
        self.layers = nn.Sequential(*itertools.chain.from_iterable(layers))

    def forward(self, z: Tensor, *labels: Tensor) -> Tensor:
        """Map `(B, latent_dim)` and labels `(B,)`, if there are classes, to `(B, width)`."""
        h = _scaled(z) if z.shape[1] else z
        if self.embedding is not None and self.bias is not None:
            h = torch.cat([h, _scaled(self.embedding(*labels) + self.bias)], 1)
        return self.layers(h)


class ModulatedConvolution(nn.Module):
    """A convolution whose weights are scaled by the style of each sample (equations 1 and 3).

    The weights are w' = s_i · w_ijk for input i, output j and position k, demodulated to w'' = w' / √(Σ_ik w'² + 1e-8). Inputs
    and outputs are scaled instead of the weights, which is equivalent and needs no separate weights for each sample.

    Args:
        before, after, width, size: The channels, the length of a style, and the side of the kernel.
        demodulate: Whether outputs are demodulated; if not, weights are multiplied by 1/√fan_in.
        up: Whether the side is doubled, by a transposed convolution and the bilinear kernel.
    """

    def __init__(
        self, before: int, after: int, width: int, size: int = 3, *, demodulate: bool = True, up: bool = False
    ) -> None:
        super().__init__()
        self.style = equalized(nn.Linear(width, before))
        nn.init.ones_(self.style.bias)
        self.weight = nn.Parameter(torch.randn(after, before, size, size))
        self.padding = size // 2  # a number also where TorchScript traces, to which shapes are tensors
        self.demodulate = demodulate
        self.gain = 1.0 if demodulate else 1 / math.sqrt(before * size * size)
        self.filter = Filter(padding=1, gain=4.0) if up else None

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """Map `(B, before, H, W)` under styles `(B, width)` to `(B, after, H, W)`, or twice the side."""
        s = self.gain * self.style(style)
        x = x * s[:, :, None, None]
        if self.filter is None:
            x = functional.conv2d(x, self.weight, padding=self.padding)
        else:
            x = self.filter(functional.conv_transpose2d(x, self.weight.transpose(0, 1), stride=2))
        if not self.demodulate:
            return x
        squares = s.square() @ self.weight.square().sum((2, 3)).mT
        return x * (squares + EPSILON).rsqrt()[:, :, None, None]


class StyledConvolution(nn.Module):
    """A modulated 3×3 convolution, noise, bias and leaky ReLU; `size` is that of the output."""

    constant: Tensor

    def __init__(self, before: int, after: int, width: int, size: tuple[int, int], *, noise: bool, up: bool = False) -> None:
        super().__init__()
        self.convolution = ModulatedConvolution(before, after, width, up=up)
        self.bias = nn.Parameter(torch.zeros(after, 1, 1))
        self.strength = nn.Parameter(torch.zeros(())) if noise else None
        self.register_buffer("constant", torch.randn(size) if noise else None)
        self.activation = Leaky()

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """Map `(B, before, H, W)` under styles `(B, width)` to `(B, after, …)`."""
        h = self.convolution(x, style)
        if self.strength is not None:
            noise = torch.randn_like(h[:, :1]) if self.training else self.constant.to(h.dtype)
            h = h + self.strength * noise
        return self.activation(h + self.bias)


class Block(nn.Module):
    """Two 3×3 convolutions with leaky ReLU, the second of which halves the side.

    If it is residual, a 1×1 shortcut is added, and the sum is scaled by √½.
    """

    def __init__(self, before: int, after: int, residual: bool) -> None:
        super().__init__()
        first = equalized(nn.Conv2d(before, before, 3, padding=1))
        second = equalized(nn.Conv2d(before, after, 3, stride=2))
        self.residual = nn.Sequential(first, Leaky(), Filter(padding=2), second, Leaky())
        self.shortcut = nn.Sequential(Down(), equalized(nn.Conv2d(before, after, 1, bias=False))) if residual else None

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, before, H, W)` to `(B, after, H/2, W/2)`."""
        residual = self.residual(x)
        return residual if self.shortcut is None else (residual + self.shortcut(x)) * math.sqrt(0.5)


class Leaky(nn.Module):
    """√2 times leaky ReLU of slope 0.2, which approximately preserves the mean square."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.leaky_relu(x, 0.2) * math.sqrt(2)


class Scale(nn.Module):
    """A parameter that is stored divided by a number, so that Adam's steps, which do not depend on scale, are equalised."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, kept: Tensor) -> Tensor:
        return kept * self.scale

    def right_inverse(self, parameter: Tensor) -> Tensor:
        return parameter / self.scale


def equalized(layer: Layer, rate: float = 1.0) -> Layer:
    """Return a layer with new weights from N(0, 1/fan_in), an equalised learning rate, and a bias of 0 (Karras et al. 2018).

    Args:
        layer: The layer; the fan-in of an embedding is its number of vectors, as in a linear layer that reads one-hot labels.
        rate: Its learning rate, relative to that of other layers.
    """
    weight = layer.weight
    spread = 1 / math.sqrt(len(weight) if isinstance(layer, nn.Embedding) else weight[0].numel())
    nn.init.normal_(weight, 0.0, spread)
    parametrize.register_parametrization(layer, "weight", Scale(rate * spread))
    if not isinstance(layer, nn.Embedding) and layer.bias is not None:
        nn.init.zeros_(layer.bias)
        if rate != 1:
            parametrize.register_parametrization(layer, "bias", Scale(rate))
    return layer


def _channels(shape: tuple[int, ...], width: int, base: int) -> list[int]:
    """Return the channels of each side, from that of the first map to that of the image."""
    return [max(1, min(base >> doubling, width)) for doubling in range(2, 3 + doublings(shape))]


def _scaled(x: Tensor) -> Tensor:
    """Return vectors `(B, n)` whose mean square is 1."""
    return x * (x.square().mean(1, keepdim=True) + EPSILON).rsqrt()
