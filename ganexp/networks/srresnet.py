"""SRGAN's generator for super-resolution (Ledig et al. 2017)."""

from typing import Annotated, Literal

from annotated_types import Ge, Le
from torch import Tensor, nn

from ganexp.networks.dcgan import initialize
from ganexp.networks.norms import norm_layers
from ganexp.networks.sizes import Width, sides
from ganexp.networks.translator import Translator
from ganexp.ranges import checked


class SRResNet(Translator):
    """Residual blocks at the side of the source, a skip over all of them, then sub-pixel convolutions that double the side.

    9×9 convolutions at both ends, 3×3 convolutions between, PReLU (Ledig et al. 2017, figure 4); tanh at the end. How often the
    side is doubled follows from the shapes of sources and samples.

    Args:
        source: Shape of a source, `(C, H, W)`.
        shape: Shape of a sample, whose sides are those of the source, or 2, 4, 8, … times as many.
        width: Channels of every map; 64 in the paper.
        blocks: Residual blocks, each of two convolutions; 16 in the paper.
        norm: `batch` as in the paper, or `none`.
    """

    @checked
    def __init__(
        self,
        source: tuple[int, ...],
        shape: tuple[int, ...],
        *,
        width: Width = 64,
        blocks: Annotated[int, Ge(0), Le(1000)] = 16,
        norm: Literal["none", "batch"] = "batch",
    ) -> None:
        super().__init__()
        (height, side), (small_height, small_side) = sides(shape), sides(source)
        factor = height // small_height
        if (factor * small_height, factor * small_side) != (height, side) or factor & (factor - 1) or not factor:
            raise ValueError(
                "samples should have the sides of sources, or 2, 4, 8, … times as many, and there are "
                f"{height}×{side} and {small_height}×{small_side}; choose another factor in the data set"
            )
        self.first = nn.Sequential(nn.Conv2d(source[0], width, 9, padding=4), nn.PReLU())
        self.blocks = nn.Sequential(*(_FlatPReLUBlock(width, norm) for _ in range(blocks)))
        self.after = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), *norm_layers(norm, width))
        self.up = nn.Sequential()
        for _ in range(factor.bit_length() - 1):
            self.up.extend([nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.PReLU()])
        self.last = nn.Conv2d(width, shape[0], 9, padding=4)
        self.apply(initialize)

    def forward(self, source: Tensor) -> Tensor:
        x = self.first(source)
        return self.last(self.up(x + self.after(self.blocks(x)))).tanh()


class _FlatPReLUBlock(nn.Module):
    """The identity plus two 3×3 convolutions with a PReLU between."""

    def __init__(self, width: int, norm: str) -> None:
        super().__init__()
        first, second = ([nn.Conv2d(width, width, 3, padding=1), *norm_layers(norm, width)] for _ in range(2))
        self.residual = nn.Sequential(*first, nn.PReLU(), *second)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.residual(x)
