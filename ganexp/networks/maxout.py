"""Maxout networks (Goodfellow et al. 2013), which scored points in the experiments of ALI, VEEGAN and PacGAN."""

import itertools
import math
from typing import Annotated

from annotated_types import Ge, Le
from torch import Tensor, nn

from ganexp.networks.mlp import normal_
from ganexp.networks.sizes import Depth, Width
from ganexp.ranges import checked


class Maxout(nn.Module):
    """The largest of `pieces` linear functions, for each of the outputs."""

    def __init__(self, inputs: int, outputs: int, pieces: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs * pieces)
        self.shape = (pieces, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, inputs)` to `(B, outputs)`."""
        return self.linear(x).unflatten(1, self.shape).amax(1)


class MaxoutDiscriminator(nn.Module):
    """`depth` maxout layers of `width` units on the flattened sample, then one logit.

    Weights start from N(0, `std`²), and biases at 0. The defaults are those of Lin et al. 2018 (PacGAN) on ring and grid, as in
    the authors' code.

    Args:
        width, depth: Size and number of the hidden layers.
        pieces: Number of linear functions of each unit.
        std: Standard deviation of the weights at the start.
    """

    output = "logit"

    @checked
    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        width: Width = 200,
        depth: Depth = 3,
        pieces: Annotated[int, Ge(1), Le(1000)] = 5,
        std: Annotated[float, Ge(0)] = 0.02,
    ) -> None:
        super().__init__()
        sizes = [math.prod(shape)] + [width] * depth
        hidden = [Maxout(inputs, outputs, pieces) for inputs, outputs in itertools.pairwise(sizes)]
        self.layers = nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, 1), nn.Flatten(0))
        normal_(self, std)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)
