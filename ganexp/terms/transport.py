"""The cost of transport from noise to samples."""

from typing import Annotated, ClassVar

from annotated_types import Ge
from torch import Tensor

from ganexp.instruments.scalar import Scalar
from ganexp.ranges import checked
from ganexp.terms.base import Generated, Term


class Transport(Term):
    """weight · mean (G(z) − z)² over samples and their numbers, z as long as a sample (Lin et al. 2025, AFM).

    The authors' weight falls from 0.2 to 0.005 along a cosine.
    """

    measures: ClassVar = Scalar("mean squared difference between samples and their latents, over the interval", best="lowest")

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 0.2) -> None:
        self.weight: float | Tensor = weight

    def __call__(self, generated: Generated) -> Tensor:
        z, fake = generated.fake.source, generated.fake.values
        if z is None or z.numel() != fake.numel():
            long, own = fake.numel() // len(fake if z is None else z), 0 if z is None else z[0].numel()
            raise ValueError(f"transport compares samples of {long} numbers with latents of {own}: choose latent_dim={long}")
        return (fake - z.view_as(fake)).square().flatten(1).mean(1)
