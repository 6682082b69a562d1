"""Images and degraded versions of them as sources, from which G restores them: downscaled, edges, grey, masked, noisy."""

from dataclasses import replace
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate, pad

from ganexp.batch import Batch
from ganexp.data.dataset import Dataset
from ganexp.data.derived import Derived, HoldOut
from ganexp.data.feed import to_pixels
from ganexp.facts import Misfit
from ganexp.ranges import checked

How = Literal["downscaled", "edges", "grey", "masked", "noisy"]


class Degraded(Derived):
    """The images of another data set, each with a source that is made from it. A source depends on its own image alone.

    Args:
        of: The other data set.
        how: What the source is.
            `downscaled`: means over `factor` × `factor` pixels.
            `edges`: one channel, black where the image changes by more than `threshold` from a pixel to its right and lower
            neighbours, else white. The change is the length of the gradient, root mean square over channels; from black to
            white it is 2.
            `grey`: the luma of a colour image (ITU-R BT.601), one channel.
            `masked`: a rectangle in the middle, `hole` times as long as each side, is middle grey.
            `noisy`: Gaussian noise is added to each number, and the sum is not clamped. The noise follows from the pixels, so
            that the same image always has the same; a mirrored image has other noise.
        factor: By how much the side is divided.
        enlarged: Whether a downscaled source is enlarged to the size of the image again, each pixel as it is.
        threshold: The least change that is an edge.
        hole: The share of each side that is masked.
        noise: Standard deviation of the noise; black is -1 and white 1.
        hold_out: As in `Derived`.
    """

    @checked
    def __init__(
        self,
        *,
        of: Dataset,
        how: How = "downscaled",
        factor: Annotated[int, Ge(2), Le(64)] = 4,
        enlarged: bool = True,
        threshold: Annotated[float, Gt(0), Lt(3)] = 0.6,
        hole: Annotated[float, Gt(0), Le(1)] = 0.5,
        noise: Annotated[float, Gt(0), Le(100)] = 0.5,
        hold_out: HoldOut = 0,
    ) -> None:
        super().__init__(of, hold_out)
        self.how, self.factor, self.enlarged = how, factor, enlarged
        self.threshold, self.hole, self.noise = threshold, hole, noise
        channels, height, width = of.shape
        if how == "grey" and channels != 3:
            raise Misfit(f"has images of {channels} channels, and how=grey takes colour", how="edges")
        if how == "downscaled" and (height % factor or width % factor):
            fitting = next((divisor for divisor in range(factor, 1, -1) if not height % divisor and not width % divisor), None)
            reason = f"has images of {height}×{width} pixels, which factor={factor} does not divide"
            raise Misfit(reason, **({"factor": fitting} if fitting else {"how": "noisy"}))
        self.source_shape = (1 if how in ("edges", "grey") else channels, height, width)
        if how == "downscaled" and not enlarged:
            self.source_shape = (channels, height // factor, width // factor)

    def derive(self, batch: Batch) -> Batch:
        return replace(batch, source=getattr(self, f"_{self.how}")(batch.values))

    def _downscaled(self, x: Tensor) -> Tensor:
        small = avg_pool2d(x, self.factor)
        return interpolate(small, scale_factor=float(self.factor)) if self.enlarged else small

    def _edges(self, x: Tensor) -> Tensor:
        bordered = pad(x, (0, 1, 0, 1), mode="replicate")
        right, down = bordered[..., :-1, 1:] - x, bordered[..., 1:, :-1] - x
        change = (right.square() + down.square()).mean(1, keepdim=True)
        return 1 - 2 * (change > self.threshold**2).to(x.dtype)

    def _grey(self, x: Tensor) -> Tensor:
        from torchvision.transforms.v2.functional import rgb_to_grayscale  # slow to import

        return rgb_to_grayscale(x)

    def _masked(self, x: Tensor) -> Tensor:
        source = x.clone()
        top, left = (round(side * (1 - self.hole) / 2) for side in x.shape[2:])
        source[..., top : x.shape[2] - top, left : x.shape[3] - left] = 0
        return source

    def _noisy(self, x: Tensor) -> Tensor:
        return x + self.noise * noise_of(x)


def noise_of(x: Tensor) -> Tensor:
    """Return standard normal numbers, shaped as images in [-1, 1], that follow from the 8-bit pixels of each image alone.

    The generators of torch draw for a whole batch, in an order that depends on the batches before. Here each number is a hash
    of the image and of its place in the image.
    """
    places = torch.arange(x[0].numel(), device=x.device)
    image = _mixed(_mixed(256 * places + to_pixels(x).flatten(1)).sum(1, keepdim=True))
    radius, angle = ((_mixed(image + _mixed(2 * places + part)).to(x.dtype) + 0.5) / 2**32 for part in (0, 1))
    return ((-2 * radius.log()).sqrt() * (2 * torch.pi * angle).cos()).view_as(x)  # Box and Muller


def _mixed(x: Tensor) -> Tensor:
    """Return a hash of whole numbers, in [0, 2³²): the 32-bit permutation `lowbias32` of Wellons's hash-prospector."""
    x = x & 0xFFFFFFFF
    x = (x ^ (x >> 16)) * 0x7FEB352D & 0xFFFFFFFF
    x = (x ^ (x >> 15)) * 0x846CA68B & 0xFFFFFFFF  # the product wraps around in 64 bits, and its lower 32 are right
    return x ^ (x >> 16)
