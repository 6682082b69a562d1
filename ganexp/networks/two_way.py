"""Networks for both directions of translation (Zhu et al. 2017): pairs of networks on stacks of one sample of each set."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ganexp.networks.patch import PatchDiscriminator
from ganexp.networks.resnet_translator import ResNetTranslator
from ganexp.networks.sizes import sides
from ganexp.ranges import checked


class TwoWayGenerator(nn.Module):
    """Two translators as one: G from set A to set B, and F from B to A. A stack (a, b) becomes (F(b), G(a)).

    The channels of a stack are those of a, followed by as many of b. Applied to its own output, it returns (F(G(a)), G(F(b))),
    which the cycle compares with (a, b).

    Args:
        source: Shape of a stack, `(2C, H, W)`.
        shape: The same.
        of: Builds a translator from the shapes of a source and of a sample, both `(C, H, W)`.
    """

    reads_sources = True
    two_way = True

    @checked
    def __init__(
        self, source: tuple[int, ...], shape: tuple[int, ...], *, of: Callable[..., nn.Module] = ResNetTranslator
    ) -> None:
        super().__init__()
        if source != shape:
            raise ValueError(
                f"sources should be stacks of the samples' shape, {shape}, not {source}; choose the unpaired data set"
            )
        sample = half(shape)
        self.a_to_b, self.b_to_a = of(sample, sample), of(sample, sample)

    def forward(self, source: Tensor) -> Tensor:
        """Map stacks `(B, 2C, H, W)` of (a, b) to stacks of (F(b), G(a))."""
        a, b = source.chunk(2, 1)
        return torch.cat([self.b_to_a(b), self.a_to_b(a)], 1)


class TwoWayDiscriminator(nn.Module):
    """Two discriminators as one, of the first and of the second half of a stack; the loss is the mean over both.

    Departure: the paper takes the sum of both losses.

    Args:
        shape: Shape of a stack, `(2C, H, W)`.
        of: Builds a discriminator from the shape of a sample, `(C, H, W)`; it has `heads` and `features`.
    """

    output = "logit"
    maps = True

    @checked
    def __init__(self, shape: tuple[int, ...], *, of: Callable[..., nn.Module] = PatchDiscriminator) -> None:
        super().__init__()
        sample = half(shape)
        halves: list[Any] = [of(sample), of(sample)]
        self.halves = nn.ModuleList(halves)
        try:
            self.heads = (*halves[0].heads, *halves[1].heads)
        except AttributeError:
            raise ValueError("of should make discriminators that say how many places they score, as patch does") from None
        """The number of places that each of them scores."""

    def features(self, x: Tensor) -> list[Tensor]:
        """Return the features of both."""
        return [feature for network, part in self._each(x) for feature in network.features(part)]

    def forward(self, x: Tensor) -> Tensor:
        """Map stacks `(B, 2C, H, W)` to the logits of both, `(B, 1, S)`."""
        return torch.cat([network(part).flatten(2) for network, part in self._each(x)], 2)

    def _each(self, x: Tensor) -> Iterator[tuple[Any, Tensor]]:
        """Yield each discriminator, and its half of a stack."""
        yield from zip(self.halves, x.chunk(2, 1), strict=True)


def half(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the shape of one sample of a stack of two."""
    height, width = sides(shape)
    if shape[0] % 2:
        raise ValueError(
            f"shape should be that of two images in a stack, (2C, H, W), not {shape}; choose the unpaired data set"
        )
    return shape[0] // 2, height, width
