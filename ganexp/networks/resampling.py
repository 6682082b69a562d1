"""Resampling to half or twice the side by the kernel of StyleGAN2 and R3GAN, which keeps high frequencies from aliasing."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Filter(nn.Module):
    """The bilinear kernel for a factor of two, `[1, 3, 3, 1]` in each direction; the map is padded with zeros.

    Args:
        padding: Rows and columns of zeros at each edge.
        gain: A factor of the result.
    """

    kernel: Tensor

    def __init__(self, padding: int = 1, gain: float = 1.0) -> None:
        super().__init__()
        taps = torch.tensor([1.0, 3.0, 3.0, 1.0]) / 8
        self.register_buffer("kernel", gain * taps[:, None] * taps, persistent=False)
        self.padding = padding

    def weight(self, channels: int) -> Tensor:
        """Return the kernel for each channel, `(channels, 1, 4, 4)`."""
        return self.kernel.expand(channels, 1, 4, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, C, H, W)` to `(B, C, H + 2·padding − 3, W + 2·padding − 3)`."""
        return functional.conv2d(x, self.weight(x.shape[1]), padding=self.padding, groups=x.shape[1])


class Up(Filter):
    """Twice the side, by bilinear interpolation."""

    def __init__(self) -> None:
        super().__init__(gain=4.0)

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, C, H, W)` to `(B, C, 2H, 2W)`."""
        channels = x.shape[1]
        return functional.conv_transpose2d(x, self.weight(channels), stride=2, padding=1, groups=channels)


class Down(Filter):
    """Half the side, by bilinear interpolation after a low-pass filter: the transpose of `Up`, except for scale."""

    def forward(self, x: Tensor) -> Tensor:
        """Map `(B, C, H, W)` to `(B, C, H/2, W/2)`."""
        channels = x.shape[1]
        return functional.conv2d(x, self.weight(channels), stride=2, padding=1, groups=channels)
