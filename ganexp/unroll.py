"""Gradient steps of the discriminator that can be differentiated through (Metz et al. 2017, equations 7 and 8)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call

Scorer = Callable[[Tensor], Tensor]
"""From images to scores."""


def unroll(discriminator: nn.Module, objective: Callable[[Scorer], Tensor], *, k: int, rate: float) -> Scorer:
    """Return the discriminator that `k` plain gradient steps of size `rate` lead to, as a function of images.

    The discriminator itself is left as it is, its buffers included. Departure: constraints on D's weights, such as
    clipping, are not applied to the steps, which would cut the gradient.

    Args:
        discriminator: Where the steps begin; frozen parameters stay, and so do those that no score depends on.
        objective: D's loss, as a function of any discriminator.
        k: How many steps.
        rate: Their size.
    """
    slots, buffers = _slots(discriminator, "_parameters"), _slots(discriminator, "_buffers")
    weights = {p: p for p in slots.values() if p.requires_grad}  # by the parameter that it began as
    copies = {name: buffer.clone() for name, buffer in buffers.items()}

    def ahead(images: Tensor) -> Tensor:
        replaced = {name: weights.get(p, p) for name, p in slots.items()}
        return functional_call(discriminator, replaced | copies, (images,), tie_weights=False)

    for _ in range(k):
        before = list(weights.values())
        gradients = torch.autograd.grad(objective(ahead), before, create_graph=True, allow_unused=True)
        moved = [w if g is None else w - rate * g for w, g in zip(before, gradients, strict=True)]
        weights = dict(zip(weights, moved, strict=True))
    return ahead


def _slots(network: nn.Module, kind: str) -> dict[str, Tensor]:
    """Return every place that holds a tensor, once: modules may be registered twice, and parameters shared by modules.

    `functional_call` on its own would swap the weights of a module that is registered twice two times, and put the second
    lot back last.
    """
    modules = network.named_modules()  # each module once
    held = ((f"{prefix}.{name}" if prefix else name, t) for prefix, m in modules for name, t in getattr(m, kind).items())
    return {name: tensor for name, tensor in held if tensor is not None}
