"""The gradient penalty of WGAN-GP."""

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch
from ganexp.penalties.base import Discriminator, Penalty
from ganexp.ranges import checked
from ganexp.streams import stream


class GradientPenalty(Penalty):
    """weight · mean (‖∇D(x̂)‖₂ − 1)², x̂ uniformly between paired real and generated images (Gulrajani et al. 2017).

    The gradient of one image's score is meant to be that image's alone, so D should have no batch norm.
    """

    needs_logits = True
    differentiates_gradients = True

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 10.0) -> None:
        self.weight = weight

    def begin(self, seed: int, device: torch.device) -> None:
        self.rng = stream(seed, "gradient penalty", device)

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor:
        real, made = x.values, fake.values
        if real.shape != made.shape:
            raise ValueError(
                f"the gradient penalty pairs real with fake, but their shapes are {tuple(real.shape)} and {tuple(made.shape)}"
            )
        share = torch.empty(len(real), *[1] * (real.dim() - 1), device=real.device, dtype=real.dtype)
        between = torch.lerp(made, real, share.uniform_(generator=self.rng)).requires_grad_()
        (slope,) = torch.autograd.grad(discriminator(between, *x.given).sum(), between, create_graph=True)
        return (torch.linalg.vector_norm(slope.flatten(1), dim=1) - 1).square()
