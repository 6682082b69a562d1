"""Discriminators that score patches of an image (Isola et al. 2017), at one scale or at several (Wang et al. 2018)."""

import itertools
import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate
from torch.nn.utils.parametrizations import spectral_norm

from ganexp.facts import Misfit
from ganexp.networks.dcgan import initialize
from ganexp.networks.norms import norm_layers
from ganexp.networks.sizes import Depth, Width, sides
from ganexp.ranges import checked

Norm = Literal["none", "batch", "instance", "spectral"]
"""What follows each layer but the first and the last; or `spectral`: each weight is divided by its spectral norm."""


class PatchDiscriminator(nn.Module):
    """PatchGAN: one logit for each of many overlapping patches of an image (Isola et al. 2017, section 3.2.2).

    `layers` 4×4 convolutions of stride 2 and two of stride 1, with leaky ReLU 0.2 between them. Three layers see patches of
    70×70 pixels, two of 34×34, one of 16×16. The map has `side // 2**layers - 2` places along each side.

    Departure: no norm by default, as batch norm lets images of a batch see each other; the paper has batch norm.

    Args:
        shape: `(C, H, W)` with sides of at least 3 · 2^`layers`.
        width: Channels of the first layer; each later layer has twice as many, up to 8 · `width`.
        layers: How often the side is halved.
        norm: `none`, `batch`, `instance` (without weights, as in CycleGAN) or `spectral`.
        source: Shape of a source that it reads besides the image, `(C, H, W)`, with the same sides or smaller ones, which are
            enlarged; empty for none.
        reads_source: Whether it reads the sources of images that have them.
    """

    output = "logit"
    maps = True

    @checked
    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        width: Width = 64,
        layers: Depth = 3,
        norm: Norm = "none",
        source: tuple[int, ...] = (),
        reads_source: bool = True,
    ) -> None:
        super().__init__()
        source = source if reads_source else ()
        height, side = map_sides(shape, layers)
        self.heads = (height * side,)
        """The number of places that it scores."""
        self.reads_source = bool(source)
        channels = [seen_channels(shape, source)] + [width * min(8, 2**i) for i in range(layers + 1)]
        modules: list[nn.Module] = []
        for i, (before, after) in enumerate(itertools.pairwise(channels)):
            modules.append(
                nn.Conv2d(before, after, 4, stride=2 if i < layers else 1, padding=1, bias=i == 0 or norm != "batch")
            )
            modules += [*(norm_layers(norm, after) if i else []), nn.LeakyReLU(0.2)]
        modules.append(nn.Conv2d(channels[-1], 1, 4, padding=1))
        self.layers = nn.Sequential(*modules).apply(initialize)
        if norm == "spectral":
            for layer in self.layers:
                if isinstance(layer, nn.Conv2d):
                    spectral_norm(layer)

    def features(self, x: Tensor, *source: Tensor) -> list[Tensor]:
        """Return the output of each leaky ReLU, that is of every layer but the last, for the arguments of `forward`."""
        x, outputs = beside(x, *source), []
        for layer in self.layers[:-1]:
            x = layer(x)
            if isinstance(layer, nn.LeakyReLU):
                outputs.append(x)
        return outputs

    def forward(self, x: Tensor, *source: Tensor) -> Tensor:
        """Map images `(B, C, H, W)`, and their sources if it reads any, to logits `(B, 1, h, w)`."""
        return self.layers(beside(x, *source))


class MultiscaleDiscriminator(nn.Module):
    """Several patch discriminators, each at half the side of the one before (Wang et al. 2018, pix2pixHD, section 3.2).

    The side is halved by means over 3×3 pixels, as in the authors' code. The loss is the mean over discriminators, whatever
    the number of their places; the authors take the sum.

    Args:
        shape: `(C, H, W)`, whose sides at the last scale are at least 3 · 2^`layers`.
        width, layers, norm, source, reads_source: As in `PatchDiscriminator`.
        scales: Number of discriminators.
    """

    output = "logit"
    maps = True

    @checked
    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        width: Width = 64,
        layers: Depth = 3,
        norm: Norm = "none",
        scales: Depth = 2,
        source: tuple[int, ...] = (),
        reads_source: bool = True,
    ) -> None:
        super().__init__()
        source = source if reads_source else ()
        height, side = sides(shape)
        self.reads_source = bool(source)
        smaller = [(seen_channels(shape, source), -(-height // 2**i), -(-side // 2**i)) for i in range(scales)]
        least, (_, *last) = 3 * 2**layers, smaller[-1]
        fitting = sum(min(small[1:]) >= least for small in smaller)
        if 0 < fitting < scales:  # if none fits, `map_sides` refuses the first
            needs = f"has layers={layers}, which need sides of {least} pixels or more"
            raise Misfit(f"{needs}, and the last of scales={scales} sees {last[0]}×{last[1]}", scales=fitting)
        self.heads = tuple(math.prod(map_sides(small, layers)) for small in smaller)
        """The number of places that each of them scores."""
        self.scales = nn.ModuleList(PatchDiscriminator(small, width=width, layers=layers, norm=norm) for small in smaller)

    def features(self, x: Tensor, *source: Tensor) -> list[Tensor]:
        """Return the features of all discriminators."""
        return [feature for network, scaled in self._each(x, *source) for feature in network.features(scaled)]

    def forward(self, x: Tensor, *source: Tensor) -> Tensor:
        """Map images `(B, C, H, W)`, and their sources if it reads any, to the logits of all discriminators, `(B, 1, S)`."""
        return torch.cat([network(scaled).flatten(2) for network, scaled in self._each(x, *source)], 2)

    def _each(self, x: Tensor, *source: Tensor) -> Iterator[tuple[Any, Tensor]]:
        """Yield each discriminator with its input."""
        x = beside(x, *source)
        for i, network in enumerate(self.scales):
            x = avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False) if i else x
            yield network, x


def seen_channels(shape: tuple[int, ...], source: tuple[int, ...]) -> int:
    """Return the number of channels of an image and its source, whose shape may be empty; it must not be larger."""
    if not source:
        return shape[0]
    if any(of_source > of_sample for of_source, of_sample in zip(sides(source), sides(shape), strict=True)):
        raise ValueError(f"sources should not be larger than samples, {shape[1]}×{shape[2]}, and are {source[1]}×{source[2]}")
    return shape[0] + source[0]


def beside(x: Tensor, *source: Tensor) -> Tensor:
    """Return images with their sources as further channels; smaller sources are enlarged by nearest neighbours."""
    return torch.cat(
        [x, *(tensor if tensor.shape[2:] == x.shape[2:] else interpolate(tensor, x.shape[2:]) for tensor in source)], 1
    )


def map_sides(shape: tuple[int, ...], layers: int) -> tuple[int, int]:
    """Return height and width of the map of scores."""
    height, width = (side // 2**layers - 2 for side in sides(shape))
    if min(height, width) < 1:
        fitting = (min(shape[1:]) // 3).bit_length() - 1
        reason = f"has layers={layers}, which need sides of {3 * 2**layers} pixels or more, and there are {shape[1]}×{shape[2]}"
        raise Misfit(reason, **({"layers": fitting} if fitting > 0 else {"dataset.image_size": 16}))
    return height, width
