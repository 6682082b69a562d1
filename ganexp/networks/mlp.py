"""Multilayer perceptrons, for points of the plane and for images of any size."""

import itertools
import math
from typing import Annotated

from annotated_types import Ge
from torch import Tensor, nn

from ganexp.networks.conditions import ConcatenatedEmbedding, Conditioning, LabelledDiscriminator
from ganexp.networks.minibatch_deviation import MinibatchDeviation
from ganexp.networks.sizes import Depth, Width
from ganexp.ranges import checked


class MLPGenerator(nn.Module):
    """`depth` hidden ReLU layers of `width`, then a linear one; images pass through a tanh, points do not.

    Args:
        width, depth: Size and number of the hidden layers.
        batch_norm: Whether a batch norm takes the place of the bias in each hidden layer.
        std: Standard deviation of the weights at the start, with biases at 0; None for torch's own initialisation.
        classes: Latents are followed by a learnt vector of their class, of the same length.
    """

    bounded = True

    @checked
    def __init__(
        self,
        latent_dim: int,
        shape: tuple[int, ...],
        *,
        width: Width = 256,
        depth: Depth = 3,
        batch_norm: bool = False,
        std: Annotated[float, Ge(0)] | None = None,
        classes: int = 0,
    ) -> None:
        super().__init__()
        self.condition = ConcatenatedEmbedding(classes, latent_dim) if classes else None
        sizes = [latent_dim * (2 if classes else 1)] + [width] * depth
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            norm = [nn.BatchNorm1d(outputs)] if batch_norm else []
            layers += [nn.Linear(inputs, outputs, bias=not batch_norm), *norm, nn.ReLU()]
        layers += [nn.Linear(width, math.prod(shape)), nn.Unflatten(1, shape)]
        if len(shape) == 3:
            layers += [nn.Tanh()]
        self.layers = nn.Sequential(*layers)
        if std is not None:
            normal_(self.layers, std)

    def forward(self, z: Tensor, *labels: Tensor) -> Tensor:
        return self.layers(self.condition(z, *labels) if self.condition else z)


class MLPDiscriminator(LabelledDiscriminator):
    """`depth` hidden leaky-ReLU layers of `width` on the flattened sample, then one logit.

    Args:
        width, depth: Size and number of the hidden layers.
        minibatch_deviation: Whether the last layer also sees how much the batch varies, by `MinibatchDeviation`.
        conditioning: How labels are read, as in `LabelledDiscriminator`, with the last hidden layer as features.
    """

    @checked
    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        width: Width = 256,
        depth: Depth = 3,
        minibatch_deviation: bool = False,
        conditioning: Conditioning = "projection",
        classes: int = 0,
    ) -> None:
        super().__init__()
        self._begin_labels(conditioning, classes, width, width)
        sizes = [math.prod(shape)] + [width] * depth
        layers: list[nn.Module] = [nn.Flatten()]
        for inputs, outputs in itertools.pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.LeakyReLU(0.2)]
        last: nn.Module = nn.Linear(width + minibatch_deviation, 1)
        last = nn.Sequential(MinibatchDeviation(), last) if minibatch_deviation else last
        self.layers = nn.Sequential(*layers, last, nn.Flatten(0))

    def forward(self, x: Tensor, *labels: Tensor) -> Tensor:
        if self.classifier is None and self.projection is None:
            return self.layers(x)
        features = self.layers[:-2](x)
        return self._with_labels(self.layers[-2:](features), features, *labels)


def normal_(network: nn.Module, std: float) -> None:
    """Draw the weights of linear layers from N(0, `std`²), and set their biases to 0."""
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0.0, std)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
