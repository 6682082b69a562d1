"""BigGAN's networks (Brock et al. 2019, appendix B, figure 15), for images of 32, 64 and 128 pixels.

With `width` 96, channels are the published ones: table 4 for 128 (ImageNet, `latent_dim` 120). The paper has none for 32 and
64: these are StudioGAN's (Kang et al. 2023), with `latent_dim` 80 for CIFAR-10.

All weights start orthogonal. Each layer's weight is divided by its spectral norm, except for the generator's class vectors, as
in the first author's code. Both networks have self-attention where the map has half the image's side.
"""

import torch
from torch import Tensor, nn

from ganexp.facts import Misfit
from ganexp.networks.attention import PooledSelfAttention
from ganexp.networks.conditions import Projection
from ganexp.networks.residual import Widths, normalize_spectrally
from ganexp.networks.sizes import Width, planned
from ganexp.ranges import checked

PLANS = {
    32: Widths((4, 4, 4, 4), (2, 2), (2, 2)),
    64: Widths((16, 8, 4, 2, 1), (1, 2, 4, 8), (16,)),
    128: Widths((16, 16, 8, 4, 2, 1), (1, 2, 4, 8, 16), (16,)),
}
"""Plans by the side of an image."""


class BigGANGenerator(nn.Module):
    """A linear layer to 4×4, blocks that double the side, batch norm, ReLU, 3×3 convolution, tanh.

    A latent vector is split into one part more than there are blocks. The first part makes the first map. Each other part,
    appended to the vector of the class, makes the gains and biases of its block's batch norms.

    Args:
        latent_dim: Length of a latent vector; its parts are as equal as possible.
        shape: `(C, H, W)` with H = W = 32, 64 or 128.
        width: Unit of the channels; 96 in the paper.
        embedding: Length of a class's vector, which all blocks share; 128 in the paper.
        attention: Whether there is a block of self-attention.
        spectral_norm: Whether weights are divided by their spectral norms.
        classes: With 0, gains and biases are made from the latents alone.
    """

    bounded = True

    @checked
    def __init__(
        self,
        latent_dim: int,
        shape: tuple[int, ...],
        *,
        width: Width = 96,
        embedding: Width = 128,
        attention: bool = True,
        spectral_norm: bool = True,
        classes: int = 0,
    ) -> None:
        super().__init__()
        plan = planned(shape, PLANS)
        self.parts = len(plan.up)
        if latent_dim < self.parts:
            raise Misfit(
                f"cuts latents into {self.parts} parts, and latent_dim={latent_dim} is less", latent_dim=20 * self.parts
            )
        first, *sizes = (len(part) for part in torch.arange(latent_dim, device="cpu").tensor_split(self.parts))
        channels, side = plan.up[0] * width, 4
        self.shared = nn.Embedding(classes, embedding) if classes else None
        self.linear = nn.Linear(first, channels * side * side)
        self.first = nn.Unflatten(1, (channels, side, side))
        self.blocks = nn.ModuleList()
        for units, size in zip(plan.up[1:], sizes, strict=True):
            self.blocks.append(BigUpBlock(channels, units * width, size + (embedding if classes else 0)))
            channels, side = units * width, 2 * side
            if attention and 2 * side == shape[1]:
                self.blocks.append(PooledSelfAttention(channels))
        self.norm = nn.BatchNorm2d(channels)
        self.image = nn.Conv2d(channels, shape[0], 3, padding=1)
        _begin(self, spectral_norm)

    def forward(self, z: Tensor, *labels: Tensor) -> Tensor:
        first, *parts = z.tensor_split(self.parts, 1)
        if self.shared is not None:
            vectors = self.shared(*labels)
            parts = [torch.cat([vectors, part], 1) for part in parts]
        h, left = self.first(self.linear(first)), iter(parts)
        for block in self.blocks:
            h = block(h, next(left)) if isinstance(block, BigUpBlock) else block(h)
        return self.image(self.norm(h).relu()).tanh()


class BigGANDiscriminator(nn.Module):
    """Residual blocks without normalisation, ReLU, the sum over all positions, a linear layer to one logit.

    Args:
        shape: `(C, H, W)` with H = W = 32, 64 or 128.
        width: Unit of the channels; 96 in the paper.
        attention: Whether there is a block of self-attention.
        spectral_norm: Whether weights are divided by their spectral norms.
        classes: With classes, a projection on the class is added to the logit.
    """

    output = "logit"

    @checked
    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        width: Width = 96,
        attention: bool = True,
        spectral_norm: bool = True,
        classes: int = 0,
    ) -> None:
        super().__init__()
        plan = planned(shape, PLANS)
        channels, side = shape[0], shape[1]
        self.blocks = nn.Sequential()
        for i, units in enumerate([*plan.down, *plan.flat]):
            down = i < len(plan.down)
            self.blocks.append(BigDownBlock(channels, units * width, activated=i > 0, down=down))
            channels, side = units * width, side // 2 if down else side
            if attention and down and 2 * side == shape[1]:
                self.blocks.append(PooledSelfAttention(channels))
        self.linear = nn.Linear(channels, 1)
        self.projection = Projection(classes, channels) if classes else None
        _begin(self, spectral_norm)

    def forward(self, x: Tensor, *labels: Tensor) -> Tensor:
        features = self.blocks(x).relu().sum((2, 3))
        scores = self.linear(features).flatten(0)
        return scores if self.projection is None else scores + self.projection(features, *labels)


class ModulatedBatchNorm2d(nn.Module):
    """Batch norm whose gain is 1 plus a linear function of a vector, and whose bias is another."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.gain, self.bias = (nn.Linear(size, channels, bias=False) for _ in range(2))

    def forward(self, x: Tensor, vector: Tensor) -> Tensor:
        """Normalise `(B, channels, H, W)` under vectors `(B, size)`."""
        gain, bias = (layer(vector)[:, :, None, None] for layer in (self.gain, self.bias))
        return (1 + gain) * self.norm(x) + bias


class BigUpBlock(nn.Module):
    """`UpBlock` whose batch norms read a vector of length `size`, without its initialisation."""

    def __init__(self, before: int, after: int, size: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = ModulatedBatchNorm2d(before, size), ModulatedBatchNorm2d(after, size)
        self.conv_1, self.conv_2 = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
        self.shortcut = nn.Conv2d(before, after, 1)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, x: Tensor, vector: Tensor) -> Tensor:
        """Map `(B, before, H, W)` under vectors `(B, size)` to `(B, after, 2H, 2W)`."""
        h = self.conv_1(self.up(self.norm_1(x, vector).relu()))
        return self.conv_2(self.norm_2(h, vector).relu()) + self.up(self.shortcut(x))


class BigDownBlock(nn.Module):
    """ReLU, 3×3 convolution, ReLU, 3×3 convolution, half the side; channels grow in the first convolution; a 1×1 shortcut.

    Args:
        before, after: Channels.
        activated: Whether it begins with the ReLU; the block on the image does not.
        down: Whether it halves the side; if it does not and channels stay the same, the shortcut is the identity.
    """

    def __init__(self, before: int, after: int, *, activated: bool, down: bool) -> None:
        super().__init__()
        layers = [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.Conv2d(after, after, 3, padding=1)]
        self.residual = nn.Sequential(*([nn.ReLU()] * activated), *layers)
        self.shortcut = nn.Conv2d(before, after, 1) if down or before != after else nn.Identity()
        self.pool = nn.AvgPool2d(2) if down else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, before, H, W)` to `(B, after, H/2, W/2)`, or to the same side."""
        return self.pool(self.residual(x)) + self.shortcut(self.pool(x))


def _begin(network: nn.Module, normalized: bool) -> None:
    """Start from orthogonal weights and biases of 0, and divide by spectral norms where that is asked for."""
    for layer in network.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear, nn.Embedding)):
            nn.init.orthogonal_(layer.weight)
            if not isinstance(layer, nn.Embedding) and layer.bias is not None:
                nn.init.zeros_(layer.bias)
    if normalized:
        normalize_spectrally(network)
