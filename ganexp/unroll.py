"""Gradient steps of the discriminator that can be differentiated through (Metz et al. 2017, equations 7 and 8)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ganexp.losses import Loss
from ganexp.penalties import NoPenalty


def unroll(
    discriminator: nn.Module, loss: Loss, penalty: NoPenalty, x: Tensor, fake: Tensor, *, k: int, rate: float
) -> Callable[[Tensor], Tensor]:
    """Return the discriminator that `k` plain gradient steps of size `rate` lead to, as a function of images.

    The discriminator itself is left as it is, its buffers included. Departure: constraints on D's weights, such as
    clipping, are not applied to the steps, which would cut the gradient.
    """
    weights: dict[str, Tensor] = {name: p for name, p in discriminator.named_parameters() if p.requires_grad}
    buffers = {name: buffer.clone() for name, buffer in discriminator.named_buffers()}

    def ahead(images: Tensor) -> Tensor:
        return functional_call(discriminator, {**weights, **buffers}, (images,))

    for _ in range(k):
        objective = loss.d_loss(ahead(x), ahead(fake))
        further = penalty(ahead, x, fake)
        objective = objective if further is None else objective + further
        gradients = torch.autograd.grad(objective, list(weights.values()), create_graph=True)
        weights = {name: w - rate * g for (name, w), g in zip(weights.items(), gradients, strict=True)}
    return ahead
