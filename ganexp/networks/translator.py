"""What generators from image to image have in common."""

from torch import Tensor, nn

from ganexp.facts import Misfit
from ganexp.networks.sizes import sides


class Translator(nn.Module):
    """A generator of sources, whose last layer is its attribute `last`."""

    reads_sources = True
    last: nn.Conv2d | nn.ConvTranspose2d

    @property
    def last_layer(self) -> Tensor:
        """The weight of the last layer."""
        return self.last.weight


def check_sides(source: tuple[int, ...], shape: tuple[int, ...], depth: int = 0) -> None:
    """Refuse sources whose sides are not those of samples, or cannot be halved `depth` times."""
    if sides(source) != sides(shape):
        raise ValueError(
            f"sources should have the sides of samples, {shape[1]}×{shape[2]}, not {source[1]}×{source[2]}; enlarge them in "
            "the data set, or choose the srresnet generator, which enlarges"
        )
    if any(side % 2**depth for side in sides(shape)):
        fitting = min((side & -side).bit_length() - 1 for side in sides(shape))
        reason = f"has depth={depth}, which takes sides that {2**depth} divides, and there are {shape[1]}×{shape[2]}"
        raise Misfit(reason, **({"depth": fitting} if fitting else {"dataset.image_size": 2**depth}))
