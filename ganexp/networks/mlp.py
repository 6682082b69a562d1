"""Multilayer perceptrons, for points of the plane and for images of any size."""

import itertools
import math

from torch import Tensor, nn

from ganexp.networks.sizes import Depth, Width
from ganexp.ranges import checked


class MLPGenerator(nn.Module):
    """`depth` hidden ReLU layers of `width`, then a linear one; images pass a tanh, points do not.

    Args:
        latent_dim: Length of a latent vector.
        shape: Shape of one sample.
        width, depth: Size and number of the hidden layers.
    """

    @checked
    def __init__(self, latent_dim: int, shape: tuple[int, ...], *, width: Width = 256, depth: Depth = 3) -> None:
        super().__init__()
        sizes = [latent_dim] + [width] * depth
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        layers += [nn.Linear(width, math.prod(shape)), nn.Unflatten(1, shape)]
        if len(shape) == 3:
            layers += [nn.Tanh()]
        self.layers = nn.Sequential(*layers)

    def forward(self, z: Tensor) -> Tensor:
        """Map `(B, latent_dim)` to `(B, *shape)`."""
        return self.layers(z)


class MLPDiscriminator(nn.Module):
    """`depth` hidden leaky-ReLU layers of `width` on the flattened sample, then one logit."""

    output = "logit"

    @checked
    def __init__(self, shape: tuple[int, ...], *, width: Width = 256, depth: Depth = 3) -> None:
        super().__init__()
        sizes = [math.prod(shape)] + [width] * depth
        layers: list[nn.Module] = [nn.Flatten()]
        for inputs, outputs in itertools.pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.LeakyReLU(0.2)]
        self.layers = nn.Sequential(*layers, nn.Linear(width, 1), nn.Flatten(0))

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, *shape)` to logits `(B,)`."""
        return self.layers(x)
