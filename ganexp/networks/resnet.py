"""SNGAN's residual networks (Miyato et al. 2018, appendix B.4), for images of 32, 48, 64 and 128 pixels.

With `width` 64, channels are the published ones: table 4 (32, CIFAR-10), table 5 (48, STL-10) and table 6 (128, ImageNet).
The plan for 64 is in the authors' code of the projection discriminator (Miyato & Koyama 2018).

Departures: the discriminator's last layer has a bias at every size (not in the authors' code for 32). `attention` is applied
where the map has 32×32 positions, as in SAGAN (Zhang et al. 2019, table 1, feat32); for images below 64, which that paper does
not have, at half the side.
"""

from torch import Tensor, nn

from ganexp.networks.attention import SelfAttention
from ganexp.networks.conditions import Conditioning, LabelledDiscriminator
from ganexp.networks.residual import (
    DownBlock,
    FirstBlock,
    FlatBlock,
    UpBlock,
    Upsampling,
    Widths,
    initialized,
    normalize_spectrally,
)
from ganexp.networks.sizes import Width, planned
from ganexp.ranges import checked

PLANS = {
    32: Widths((4, 4, 4, 4), (2, 2), (2, 2)),
    48: Widths((8, 4, 2, 1), (1, 2, 4, 8), (16,), smallest=6),
    64: Widths((16, 8, 4, 2, 1), (1, 2, 4, 8, 16)),
    128: Widths((16, 16, 8, 4, 2, 1), (1, 2, 4, 8, 16), (16,)),
}
"""Plans by the side of an image."""


class ResNetGenerator(nn.Module):
    """A linear layer to the first map, residual blocks that double its side, batch norm, ReLU, 3×3 convolution, tanh.

    Args:
        latent_dim: Length of a latent vector; 128 in the papers.
        shape: `(C, H, W)` with H = W = 32, 48, 64 or 128.
        width: Unit of the channels; 64 in the papers.
        attention: Whether there is a block of self-attention.
        spectral_norm: Whether each layer's weight is divided by its spectral norm, as in SAGAN but not in SNGAN.
        upsampling: How blocks double the side: `nearest` in the papers, `bilinear` in mimicry (Lee & Town 2020).
        classes: Each class has its own gains and biases in the blocks' batch norms; the batch norm before the image has one of
            each, as in the authors' code of the projection discriminator.
    """

    bounded = True

    @checked
    def __init__(
        self,
        latent_dim: int,
        shape: tuple[int, ...],
        *,
        width: Width = 64,
        attention: bool = False,
        spectral_norm: bool = False,
        upsampling: Upsampling = "nearest",
        classes: int = 0,
    ) -> None:
        super().__init__()
        plan = planned(shape, PLANS)
        channels, side = plan.up[0] * width, plan.smallest
        self.linear = initialized(nn.Linear(latent_dim, channels * side * side))
        self.first = nn.Unflatten(1, (channels, side, side))
        self.blocks = nn.Sequential()
        for units in plan.up[1:]:
            self.blocks.append(UpBlock(channels, units * width, classes, upsampling))
            channels, side = units * width, 2 * side
            if attention and side == _attended(shape):
                self.blocks.append(SelfAttention(channels))
        self.norm = nn.BatchNorm2d(channels)
        self.image = initialized(nn.Conv2d(channels, shape[0], 3, padding=1))
        if spectral_norm:
            normalize_spectrally(self)

    def forward(self, z: Tensor, *labels: Tensor) -> Tensor:
        h = self.first(self.linear(z))
        for block in self.blocks:
            h = block(h, *labels) if isinstance(block, UpBlock) else block(h)
        return self.image(self.norm(h).relu()).tanh()


class ResNetDiscriminator(LabelledDiscriminator):
    """Residual blocks without normalisation, ReLU, the sum over all positions, a linear layer to one logit.

    Args:
        shape: `(C, H, W)` with H = W = 32, 48, 64 or 128.
        width: Unit of the channels; 64 in the papers.
        attention: Whether there is a block of self-attention.
        spectral_norm: Whether each layer's weight is divided by its spectral norm, as in the papers.
        activated_shortcut: Whether shortcuts see the output of their block's first ReLU, as in mimicry; in the papers they see
            the block's input.
        conditioning: How labels are read, as in `LabelledDiscriminator`, with what the last layer reads as features. Weights of
            either are initialised and normalised like the others.
    """

    @checked
    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        width: Width = 64,
        attention: bool = False,
        spectral_norm: bool = True,
        activated_shortcut: bool = False,
        conditioning: Conditioning = "projection",
        classes: int = 0,
    ) -> None:
        super().__init__()
        plan = planned(shape, PLANS)
        channels, side = plan.down[0] * width, shape[1] // 2
        self.blocks = nn.Sequential(FirstBlock(shape[0], channels))
        if attention and side == _attended(shape):
            self.blocks.append(SelfAttention(channels))
        for units in plan.down[1:]:
            self.blocks.append(DownBlock(channels, units * width, activated=activated_shortcut))
            channels, side = units * width, side // 2
            if attention and side == _attended(shape):
                self.blocks.append(SelfAttention(channels))
        for units in plan.flat:
            self.blocks.append(FlatBlock(channels, units * width, activated=activated_shortcut))
            channels = units * width
        self._begin_labels(conditioning, classes, channels, channels)
        self.linear = initialized(nn.Linear(channels, 1))
        if self.classifier is not None:
            initialized(self.classifier.linear)
        if self.projection is not None:
            nn.init.xavier_uniform_(self.projection.embedding.weight)
        if spectral_norm:
            normalize_spectrally(self)

    def forward(self, x: Tensor, *labels: Tensor) -> Tensor:
        features = self.blocks(x).relu().sum((2, 3))
        return self._with_labels(self.linear(features).flatten(0), features, *labels)


def _attended(shape: tuple[int, ...]) -> int:
    """Return the side of the map that attention is applied to."""
    return min(32, shape[1] // 2)
