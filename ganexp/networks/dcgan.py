"""Deep convolutional networks (Radford et al. 2016), for images whose sides are powers of two from 16."""

import itertools

from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm as normalize

from ganexp.networks.conditions import (
    ConcatenatedEmbedding,
    ConditionalBatchNorm2d,
    ConditionalSequential,
    Conditioning,
    LabelledDiscriminator,
)
from ganexp.networks.minibatch_deviation import MinibatchDeviation
from ganexp.networks.sizes import Width, doublings, first_map
from ganexp.ranges import checked


class DCGANGenerator(nn.Module):
    """Project z to 4×4, then double the side by 4×4 transposed convolutions with ReLU; tanh at the end.

    Departure: the number of channels at 4×4 is `width` · side/8, at most 8 · `width` (the paper's ratio at 64×64).

    Args:
        shape: `(C, H, W)` with sides of 16, 32, 64, …; the shorter side is 4 in the smallest map.
        width: Channels of the layer before the image; each earlier layer has twice as many, up to 8 · `width`.
        batch_norm: Whether a batch norm follows each layer but the last.
        classes: Each class has its own gains and biases in batch norm; without batch norm, latents are followed by a learnt
            vector of their class, of the same length.
    """

    bounded = True

    @checked
    def __init__(
        self, latent_dim: int, shape: tuple[int, ...], *, width: Width = 64, batch_norm: bool = True, classes: int = 0
    ) -> None:
        super().__init__()
        self.condition = ConcatenatedEmbedding(classes, latent_dim) if classes and not batch_norm else None
        latent_dim *= 2 if self.condition else 1
        first = first_map(shape)
        channels = [width * min(8, 2**i) for i in reversed(range(doublings(shape)))]
        layers: list[nn.Module] = [nn.Unflatten(1, (latent_dim, 1, 1))]
        layers += [nn.ConvTranspose2d(latent_dim, channels[0], first, bias=not batch_norm)]
        for before, after in itertools.pairwise(channels):
            layers += _normalized_relu(before, batch_norm, classes)
            layers += [nn.ConvTranspose2d(before, after, 4, stride=2, padding=1, bias=not batch_norm)]
        layers += [*_normalized_relu(width, batch_norm, classes), nn.ConvTranspose2d(width, shape[0], 4, stride=2, padding=1)]
        sequence = ConditionalSequential if classes and batch_norm else nn.Sequential
        self.layers = sequence(*layers, nn.Tanh()).apply(initialize)

    def forward(self, z: Tensor, *labels: Tensor) -> Tensor:
        return self.layers(self.condition(z, *labels)) if self.condition else self.layers(z, *labels)


class DCGANDiscriminator(LabelledDiscriminator):
    """Halve the side by 4×4 convolutions with leaky ReLU 0.2 until it is 4, then one logit.

    Args:
        shape: `(C, H, W)` with sides of 16, 32, 64, …; the shorter side is 4 in the smallest map.
        width: Channels of the first layer; each later layer has twice as many, up to 8 · `width`.
        batch_norm: Whether a batch norm follows each layer but the first and the last. Off by default (departure): it lets
            images of one batch see each other, which penalties and `one_stage` do not allow.
        spectral_norm: Whether each layer's weight is divided by its spectral norm (Miyato et al. 2018).
        minibatch_deviation: Whether the last layer also sees how much the batch varies, by `MinibatchDeviation`.
        conditioning: How labels are read, as in `LabelledDiscriminator`, with what the last layer reads as features.
    """

    @checked
    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        width: Width = 64,
        batch_norm: bool = False,
        spectral_norm: bool = False,
        minibatch_deviation: bool = False,
        conditioning: Conditioning = "projection",
        classes: int = 0,
    ) -> None:
        super().__init__()
        height, side = first_map(shape)
        channels = [shape[0]] + [width * min(8, 2**i) for i in range(doublings(shape))]
        self._begin_labels(conditioning, classes, height * side * channels[-1], channels[-1])
        layers: list[nn.Module] = []
        for i, (before, after) in enumerate(itertools.pairwise(channels)):
            normalized = batch_norm and i > 0
            layers += [nn.Conv2d(before, after, 4, stride=2, padding=1, bias=not normalized)]
            layers += [nn.BatchNorm2d(after)] if normalized else []
            layers += [nn.LeakyReLU(0.2)]
        last: nn.Module = nn.Conv2d(channels[-1] + minibatch_deviation, 1, (height, side))
        layers += [nn.Sequential(MinibatchDeviation(), last) if minibatch_deviation else last, nn.Flatten(0)]
        self.layers = nn.Sequential(*layers).apply(initialize)
        if self.classifier is not None:
            nn.init.normal_(self.classifier.linear.weight, 0.0, 0.02)
        if spectral_norm:
            for layer in [*self.modules()]:
                if isinstance(layer, (nn.Conv2d, nn.Linear)):
                    normalize(layer)

    def forward(self, x: Tensor, *labels: Tensor) -> Tensor:
        if self.classifier is None and self.projection is None:
            return self.layers(x)
        features = self.layers[:-2](x)
        return self._with_labels(self.layers[-2:](features), features, *labels)


def _normalized_relu(channels: int, batch_norm: bool, classes: int) -> list[nn.Module]:
    if not batch_norm:
        return [nn.ReLU()]
    return [ConditionalBatchNorm2d(channels, classes) if classes else nn.BatchNorm2d(channels), nn.ReLU()]


def initialize(module: nn.Module) -> None:
    """Draw weights from N(0, 0.02²), as in section 4 of the paper, and batch-norm gains around 1."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d) and module.affine:
        nn.init.normal_(module.weight, 1.0, 0.02)
