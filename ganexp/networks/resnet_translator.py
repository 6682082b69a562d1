"""The residual generator from image to image of Johnson et al. 2016, as CycleGAN has it (Zhu et al. 2017)."""

from typing import Annotated

from annotated_types import Ge, Le
from torch import Tensor, nn

from ganexp.facts import Misfit
from ganexp.networks.dcgan import initialize
from ganexp.networks.norms import Norm, norm_layers
from ganexp.networks.sizes import Width, sides
from ganexp.networks.translator import Translator, check_sides
from ganexp.ranges import checked


class ResNetTranslator(Translator):
    """Halve the side twice, residual blocks, double it twice (Zhu et al. 2017, appendix 7.2), tanh; reflection padding.

    Args:
        source, shape: Shapes of a source and of a sample, `(C, H, W)`, with the same sides of 8, 12, 16, … pixels.
        width: Channels of the first map; 64 in the paper.
        blocks: Residual blocks, each of two convolutions: 9 in the paper for sides of 256, 6 for 128.
        norm: `none`, `batch`, or `instance` as in the paper, after each convolution but the last.
    """

    sides_divisible_by = 4
    smallest_side = 8

    @checked
    def __init__(
        self,
        source: tuple[int, ...],
        shape: tuple[int, ...],
        *,
        width: Width = 64,
        blocks: Annotated[int, Ge(0), Le(1000)] = 9,
        norm: Norm = "instance",
    ) -> None:
        super().__init__()
        check_sides(source, shape)
        if any(side % self.sides_divisible_by or side < self.smallest_side for side in sides(shape)):
            fitting = 4 * max(2, min(sides(shape)) // 4)
            reason = f"takes sides that 4 divides, 8 or more, and there are {shape[1]}×{shape[2]}"
            raise Misfit(reason, **{"dataset.image_size": fitting})
        bias = norm != "batch"
        layers = [nn.ReflectionPad2d(3), nn.Conv2d(source[0], width, 7, bias=bias), *norm_layers(norm, width), nn.ReLU()]
        for before in (width, 2 * width):
            layers += [nn.Conv2d(before, 2 * before, 3, 2, 1, bias=bias), *norm_layers(norm, 2 * before), nn.ReLU()]
        layers += [_ReflectedBlock(4 * width, norm) for _ in range(blocks)]
        for before in (4 * width, 2 * width):
            layers += [
                nn.ConvTranspose2d(before, before // 2, 3, 2, 1, 1, bias=bias),
                *norm_layers(norm, before // 2),
                nn.ReLU(),
            ]
        self.last = nn.Conv2d(width, shape[0], 7)
        self.layers = nn.Sequential(*layers, nn.ReflectionPad2d(3), self.last, nn.Tanh()).apply(initialize)

    def forward(self, source: Tensor) -> Tensor:
        return self.layers(source)


class _ReflectedBlock(nn.Module):
    """The identity plus two 3×3 convolutions with a ReLU between."""

    def __init__(self, channels: int, norm: Norm) -> None:
        super().__init__()
        first, second = (
            [nn.ReflectionPad2d(1), nn.Conv2d(channels, channels, 3, bias=norm != "batch"), *norm_layers(norm, channels)]
            for _ in range(2)
        )
        self.residual = nn.Sequential(*first, nn.ReLU(), *second)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.residual(x)
