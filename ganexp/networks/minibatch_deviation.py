"""The standard deviation of a batch as a further channel."""

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor, nn

from ganexp.ranges import checked


class MinibatchDeviation(nn.Module):
    """Append a channel that holds the mean standard deviation of the batch (Karras et al. 2018, progressive GAN, section 3).

    Maps `(B, C, H, W)` to `(B, C + 1, H, W)`, and `(B, C)` to `(B, C + 1)`. The standard deviation of each number over the
    images of a group is averaged over all numbers, so all images of a group get the same value. It couples images, so
    `one_stage` refuses it with most losses.
    Departures: as in the authors' later networks, 1e-8 is added under the root, which keeps gradients finite, and statistics
    are computed over groups; here a group is made of neighbours in the batch, which several processes must not separate.

    Args:
        group: Images per group; if it does not divide the batch size, the whole batch is one group.
    """

    @checked
    def __init__(self, *, group: Annotated[int, Ge(2)] = 4) -> None:
        super().__init__()
        self.group = group

    def forward(self, h: Tensor) -> Tensor:
        size = self.group if len(h) % self.group == 0 else len(h)
        groups = h.unflatten(0, (-1, size)).to(torch.promote_types(h.dtype, torch.float32))
        deviation = (groups.var(1, correction=0) + 1e-8).sqrt().flatten(1).mean(1).to(h.dtype)
        channel = deviation.repeat_interleave(size).view(-1, *[1] * (h.dim() - 1))
        return torch.cat([h, channel.expand(-1, 1, *h.shape[2:])], 1)
