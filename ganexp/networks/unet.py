"""The U-Net from image to image (Ronneberger et al. 2015, Isola et al. 2017)."""

import itertools
from typing import Annotated

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn

from ganexp.facts import Misfit
from ganexp.networks.dcgan import initialize
from ganexp.networks.norms import Norm, norm_layers
from ganexp.networks.sizes import Depth, Width
from ganexp.networks.translator import Translator, check_sides
from ganexp.ranges import checked


class UNet(Translator):
    """Halve the side `depth` times and double it again, with skips between maps of one size (Isola et al. 2017, section 6.1.1).

    4×4 convolutions of stride 2 with leaky ReLU 0.2 on the way down, transposed ones with ReLU on the way up, then tanh.

    Departures: in evaluation dropout is off, where the paper keeps it; the paper's batch norm on batches of one image is
    instance norm here.

    Args:
        source, shape: Shapes of a source and of a sample, `(C, H, W)`, with the same sides, which 2^`depth` divides.
        width: Channels of the first map, doubled in each later one up to 8 · `width`; 64 in the paper.
        depth: How often the side is halved: 8 in the paper's network for sides of 256, 7 in that for 128.
        norm: `none`, `batch` or `instance`, after each layer but the first, the innermost and the last.
        dropout: Probability with which a number is set to 0, after the layers on the way up that keep 8 · `width` channels,
            except the innermost: there are some at a `depth` of 6 or more. ½ in the paper.
    """

    @checked
    def __init__(
        self,
        source: tuple[int, ...],
        shape: tuple[int, ...],
        *,
        width: Width = 64,
        depth: Depth = 8,
        norm: Norm = "instance",
        dropout: Annotated[float, Ge(0), Lt(1)] = 0.0,
    ) -> None:
        super().__init__()
        check_sides(source, shape, depth)
        self.sides_divisible_by = 2**depth
        if dropout and depth < 6:
            raise Misfit(f"has dropout={dropout}, for which there is no layer at depth={depth}", dropout=0)
        bias = norm != "batch"
        channels = [width * min(8, 2**i) for i in range(depth)]
        self.down = nn.ModuleList([nn.Conv2d(source[0], width, 4, 2, 1, bias=bias)])
        self.up = nn.ModuleList()
        for i, (outer, inner) in enumerate(itertools.pairwise(channels)):
            innermost = i == depth - 2
            down = nn.Conv2d(outer, inner, 4, 2, 1, bias=bias)
            self.down.append(nn.Sequential(nn.LeakyReLU(0.2), down, *([] if innermost else norm_layers(norm, inner))))
            up = nn.ConvTranspose2d(inner if innermost else 2 * inner, outer, 4, 2, 1, bias=bias)
            drops = [nn.Dropout(dropout)] if dropout and outer == inner and not innermost else []
            self.up.insert(0, nn.Sequential(nn.ReLU(), up, *norm_layers(norm, outer), *drops))
        self.last = nn.ConvTranspose2d(width if depth == 1 else 2 * width, shape[0], 4, 2, 1)
        self.apply(initialize)

    def forward(self, source: Tensor) -> Tensor:
        x, maps = source, []
        for layer in self.down:
            x = layer(x)
            maps.append(x)
        maps.pop()
        for layer in self.up:
            x = torch.cat([layer(x), maps.pop()], 1)
        return self.last(x.relu()).tanh()
