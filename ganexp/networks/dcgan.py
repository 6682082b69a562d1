"""Deep convolutional networks (Radford et al. 2016), for square images of any power-of-two side from 16."""

import itertools

from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm as normalize

from ganexp.networks.sizes import Width, halvings
from ganexp.ranges import checked


class DCGANGenerator(nn.Module):
    """Project z to 4×4, then double the side by 4×4 transposed convolutions with ReLU; tanh at the end.

    Departure: the number of channels at 4×4 is `width` · side/8, at most 8 · `width` (the paper's ratio at 64×64).

    Args:
        latent_dim: Length of a latent vector.
        shape: `(C, H, W)` with H = W = 16, 32, 64, …
        width: Channels of the layer before the image; each earlier layer has twice as many, up to 8 · `width`.
        batch_norm: Whether a batch norm follows each layer but the last.
    """

    @checked
    def __init__(self, latent_dim: int, shape: tuple[int, ...], *, width: Width = 64, batch_norm: bool = True) -> None:
        super().__init__()
        channels = [width * min(8, 2**i) for i in reversed(range(halvings(shape)))]
        layers: list[nn.Module] = [nn.Unflatten(1, (latent_dim, 1, 1))]
        layers += [nn.ConvTranspose2d(latent_dim, channels[0], 4, bias=not batch_norm)]
        for before, after in itertools.pairwise(channels):
            layers += [*_normalized_relu(before, batch_norm)]
            layers += [nn.ConvTranspose2d(before, after, 4, stride=2, padding=1, bias=not batch_norm)]
        layers += [*_normalized_relu(width, batch_norm), nn.ConvTranspose2d(width, shape[0], 4, stride=2, padding=1)]
        self.layers = nn.Sequential(*layers, nn.Tanh()).apply(_initialize)

    def forward(self, z: Tensor) -> Tensor:
        """Map `(B, latent_dim)` to images `(B, C, H, W)` in [-1, 1]."""
        return self.layers(z)


class DCGANDiscriminator(nn.Module):
    """Halve the side by 4×4 convolutions with leaky ReLU 0.2 until it is 4, then one logit.

    Args:
        shape: `(C, H, W)` with H = W = 16, 32, 64, …
        width: Channels of the first layer; each later layer has twice as many, up to 8 · `width`.
        batch_norm: Whether a batch norm follows each layer but the first and the last. Off by default (departure):
            it lets images of one batch see each other, which penalties and `one_stage` cannot have.
        spectral_norm: Whether each layer's weight is divided by its spectral norm (Miyato et al. 2018).
    """

    output = "logit"

    @checked
    def __init__(
        self, shape: tuple[int, ...], *, width: Width = 64, batch_norm: bool = False, spectral_norm: bool = False
    ) -> None:
        super().__init__()
        channels = [shape[0]] + [width * min(8, 2**i) for i in range(halvings(shape))]
        layers: list[nn.Module] = []
        for i, (before, after) in enumerate(itertools.pairwise(channels)):
            normalized = batch_norm and i > 0
            layers += [nn.Conv2d(before, after, 4, stride=2, padding=1, bias=not normalized)]
            layers += [nn.BatchNorm2d(after)] if normalized else []
            layers += [nn.LeakyReLU(0.2)]
        layers += [nn.Conv2d(channels[-1], 1, 4), nn.Flatten(0)]
        self.layers = nn.Sequential(*layers).apply(_initialize)
        if spectral_norm:
            for layer in self.layers:
                if isinstance(layer, nn.Conv2d):
                    normalize(layer)

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(B, C, H, W)` to logits `(B,)`."""
        return self.layers(x)


def _normalized_relu(channels: int, batch_norm: bool) -> list[nn.Module]:
    return [nn.BatchNorm2d(channels), nn.ReLU()] if batch_norm else [nn.ReLU()]


def _initialize(module: nn.Module) -> None:
    """Weights from N(0, 0.02²), as section 4 of the paper says; batch-norm gains around 1."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
