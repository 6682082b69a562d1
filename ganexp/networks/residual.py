"""SNGAN's residual blocks (Miyato et al. 2018, appendix B.4), with their initialisation and spectral norm.

3×3 convolutions in a block start from Xavier's uniform distribution with gain √2, all other layers with gain 1, biases at 0,
as in the authors' code. A 1×1 convolution commutes with resampling; it is computed where the map is smaller.
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeVar

from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from ganexp.networks.conditions import ConditionalBatchNorm2d, Projection

Layer = TypeVar("Layer", nn.Conv2d, nn.Linear)
Upsampling = Literal["nearest", "bilinear"]
"""How a map's side is doubled: by nearest neighbours, as in the paper, or bilinearly, as in mimicry (Lee & Town 2020)."""


@dataclass(frozen=True)
class Widths:
    """Channels of residual networks in units of `width`, from the first map to the image and back.

    Args:
        up: Channels of the generator's first map, and after each block, which doubles the side.
        down: Channels after each of the discriminator's blocks that halve the side.
        flat: Channels after each of its further blocks.
        smallest: Side of the generator's first map.
    """

    up: tuple[int, ...]
    down: tuple[int, ...]
    flat: tuple[int, ...] = ()
    smallest: int = 4


class UpBlock(nn.Module):
    """Batch norm, ReLU, twice the side, 3×3 convolution, batch norm, ReLU, 3×3 convolution; a 1×1 shortcut.

    With classes, both batch norms are conditional (Miyato & Koyama 2018, appendix).
    """

    def __init__(self, before: int, after: int, classes: int = 0, upsampling: Upsampling = "nearest") -> None:
        super().__init__()
        self.norm_1, self.norm_2 = (
            ConditionalBatchNorm2d(channels, classes) if classes else nn.BatchNorm2d(channels) for channels in (before, after)
        )
        self.conv_1, self.conv_2 = _conv3(before, after), _conv3(after, after)
        self.shortcut = initialized(nn.Conv2d(before, after, 1))
        self.up = nn.Upsample(scale_factor=2, mode=upsampling)

    def forward(self, x: Tensor, *labels: Tensor) -> Tensor:
        """Map `(B, before, H, W)`, and labels `(B,)` if there are classes, to `(B, after, 2H, 2W)`."""
        h = self.conv_1(self.up(self.norm_1(x, *labels).relu()))
        return self.conv_2(self.norm_2(h, *labels).relu()) + self.up(self.shortcut(x))


class _Sum(nn.Module):
    """The sum of `residual` and `shortcut` on the same input."""

    residual: nn.Module
    shortcut: nn.Module

    def forward(self, x: Tensor) -> Tensor:
        return self.residual(x) + self.shortcut(x)


class FirstBlock(_Sum):
    """The discriminator's first block, on an image: two 3×3 convolutions with a ReLU between, half the side."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(_conv3(before, after), nn.ReLU(), _conv3(after, after), nn.AvgPool2d(2))
        self.shortcut = nn.Sequential(nn.AvgPool2d(2), initialized(nn.Conv2d(before, after, 1)))


class DownBlock(_Sum):
    """ReLU, 3×3 convolution, ReLU, 3×3 convolution, half the side; channels grow in the second convolution.

    With `activated`, the shortcut, too, sees the output of the first ReLU, as in mimicry, whose ReLU works in place.
    """

    def __init__(self, before: int, after: int, *, activated: bool = False) -> None:
        super().__init__()
        self.residual = nn.Sequential(nn.ReLU(), _conv3(before, before), nn.ReLU(), _conv3(before, after), nn.AvgPool2d(2))
        layers = [nn.AvgPool2d(2), initialized(nn.Conv2d(before, after, 1))]
        self.shortcut = nn.Sequential(*([nn.ReLU()] * activated), *layers)


class FlatBlock(_Sum):
    """`DownBlock` at a constant side; its shortcut is the identity where the channels stay the same."""

    def __init__(self, before: int, after: int, *, activated: bool = False) -> None:
        super().__init__()
        self.residual = nn.Sequential(nn.ReLU(), _conv3(before, before), nn.ReLU(), _conv3(before, after))
        shortcut = nn.Identity() if before == after else initialized(nn.Conv2d(before, after, 1))
        self.shortcut = nn.Sequential(nn.ReLU(), shortcut) if activated else shortcut


def initialized(layer: Layer, gain: float = 1.0) -> Layer:
    """Return a layer with new weights from Xavier's uniform distribution, and its bias at 0."""
    nn.init.xavier_uniform_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def normalize_spectrally(network: nn.Module) -> None:
    """Divide the weight of each linear and convolutional layer, and of a projection, by its spectral norm.

    Each pass takes one power iteration. A class's gains and biases are not a linear map, and stay as they are.
    """
    for layer in list(network.modules()):
        if isinstance(layer, Projection):
            spectral_norm(layer.embedding)
        elif isinstance(layer, (nn.Conv2d, nn.Linear)):
            spectral_norm(layer)


def _conv3(before: int, after: int) -> nn.Conv2d:
    return initialized(nn.Conv2d(before, after, 3, padding=1), math.sqrt(2))
